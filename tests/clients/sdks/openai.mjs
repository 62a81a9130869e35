// OpenAI's SDK for TypeScript: Chat Completions and Responses, plain, streamed, with a tool, and an error.
import OpenAI from "openai";

const client = new OpenAI({ baseURL: `${process.env.COUNSEL_URL}/v1`, apiKey: process.env.COUNSEL_TOKEN, maxRetries: 0 });
const parameters = { type: "object", properties: { n: { type: "integer" } }, required: ["n"] };
const user = (content) => [{ role: "user", content }];

async function chat(model) {
  const plain = await client.chat.completions.create({ model, messages: user("hello") });
  let streamed = "";
  const stream = await client.chat.completions.create({
    model, messages: user("hello"), stream: true, stream_options: { include_usage: true },
  });
  let usage;
  for await (const chunk of stream) {
    streamed += chunk.choices[0]?.delta.content ?? "";
    usage = chunk.usage ?? usage;
  }
  const tools = client.chat.completions.runTools({
    model, messages: user("look"), stream: true,
    tools: [{ type: "function", function: { name: "look", parameters, parse: JSON.parse, function: ({ n }) => `fur ${n}` } }],
  });
  return {
    plain: plain.choices[0].message.content,
    streamed,
    usage: usage.total_tokens > 0,
    tools: await tools.finalContent(),
    error: await failure(client.chat.completions.create({ model, messages: user("fail") })),
    error_streamed: await failure(client.chat.completions.create({ model, messages: user("fail"), stream: true })),
  };
}

async function responses(model) {
  const plain = await client.responses.create({ model, input: "hello" });
  let streamed = "";
  for await (const event of await client.responses.create({ model, input: "hello", stream: true }))
    if (event.type === "response.output_text.delta") streamed += event.delta;
  const tools = [{ type: "function", name: "look", parameters, strict: false }];
  const called = await client.responses.stream({ model, input: "look", tools }).finalResponse();
  const call = called.output.find((item) => item.type === "function_call");
  const output = `fur ${JSON.parse(call.arguments).n}`;
  const answered = await client.responses.create({
    model, tools, previous_response_id: called.id,
    input: [{ type: "function_call_output", call_id: call.call_id, output }],
  });
  return {
    plain: plain.output_text,
    streamed,
    usage: plain.usage.total_tokens > 0,
    tools: answered.output_text,
    error: await failure(client.responses.create({ model, input: "fail" })),
    error_streamed: await failure(client.responses.create({ model, input: "fail", stream: true })),
  };
}

async function failure(promise) {
  try {
    await promise;
    return "none";
  } catch (error) {
    return `${error.constructor.name} ${error.status}`;
  }
}

const seen = {};
for (const model of process.argv.slice(2)) seen[model] = { chat: await chat(model), responses: await responses(model) };
console.log(JSON.stringify(seen));
