// Vercel's AI SDK with its three providers: plain, streamed, with a tool, structured output, and an error.
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

globalThis.AI_SDK_LOG_WARNINGS = false;
const baseURL = `${process.env.COUNSEL_URL}/v1`;
const apiKey = process.env.COUNSEL_TOKEN;
const openai = createOpenAI({ baseURL, apiKey });
const providers = {
  responses: openai,
  chat: openai.chat,
  messages: createAnthropic({ baseURL, apiKey }),
  compatible: createOpenAICompatible({ name: "counsel", baseURL, apiKey, includeUsage: true, supportsStructuredOutputs: true }),
};

async function seenBy(model) {
  const plain = await generateText({ model, prompt: "hello" });
  const stream = streamText({ model, prompt: "hello" });
  let streamed = "";
  for await (const delta of stream.textStream) streamed += delta;
  const look = tool({ inputSchema: z.object({ n: z.number() }), execute: async ({ n }) => `fur ${n}` });
  const tools = streamText({ model, prompt: "look", tools: { look }, stopWhen: stepCountIs(3) });
  await tools.consumeStream();
  const object = await generateObject({ model, prompt: "object", schema: z.object({ n: z.number() }) });
  return {
    plain: plain.text,
    streamed,
    usage: (await stream.usage).outputTokens > 0,
    tools: await tools.text,
    object: object.object,
    error: await failure(generateText({ model, prompt: "fail", maxRetries: 0 })),
  };
}

async function failure(promise) {
  try {
    await promise;
    return "none";
  } catch (error) {
    return `${error.name} ${error.statusCode}`;
  }
}

const seen = {};
for (const name of process.argv.slice(2)) {
  seen[name] = {};
  for (const [api, provider] of Object.entries(providers)) seen[name][api] = await seenBy(provider(name));
}
console.log(JSON.stringify(seen));
