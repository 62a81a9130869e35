// Anthropic's SDK for TypeScript: plain, streamed, with a tool, and an error.
import Anthropic from "@anthropic-ai/sdk";

const client = new Anthropic({ baseURL: process.env.COUNSEL_URL, apiKey: process.env.COUNSEL_TOKEN, maxRetries: 0 });
const tools = [{ name: "look", input_schema: { type: "object", properties: { n: { type: "integer" } } } }];
const ask = (model, content) => ({ model, max_tokens: 500, messages: [{ role: "user", content }] });
const text = (message) => message.content.filter((block) => block.type === "text").map((block) => block.text).join("");

async function messages(model) {
  const plain = await client.messages.create(ask(model, "hello"));
  let streamed = "";
  const stream = client.messages.stream(ask(model, "hello")).on("text", (delta) => (streamed += delta));
  const final = await stream.finalMessage();
  const first = { ...ask(model, "look"), tools };
  const called = await client.messages.stream(first).finalMessage();
  const call = called.content.find((block) => block.type === "tool_use");
  const result = { type: "tool_result", tool_use_id: call.id, content: `fur ${call.input.n}` };
  const answered = await client.messages.create({
    ...first,
    messages: [...first.messages, { role: "assistant", content: called.content }, { role: "user", content: [result] }],
  });
  return {
    plain: text(plain),
    streamed,
    usage: final.usage.output_tokens > 0,
    tools: text(answered),
    error: await failure(client.messages.create(ask(model, "fail"))),
    error_streamed: await failure(client.messages.stream(ask(model, "fail")).finalMessage()),
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
for (const model of process.argv.slice(2)) seen[model] = { messages: await messages(model) };
console.log(JSON.stringify(seen));
