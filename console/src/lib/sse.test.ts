import { describe, expect, it } from 'vitest';
import { EventParser } from './sse';

const STREAM = 'event: job\ndata: {"text": "a\\n\\nb"}\n\n: \n\nevent: jobs\ndata: {}\n\ndata: plain\n\n';
const MESSAGES = [['job', '{"text": "a\\n\\nb"}'], ['jobs', '{}'], ['message', 'plain']];

describe('server-sent events', () => {
  it.each([1, 2, 3, 5, 7, 1000])('are the same in pieces of %i characters', (size) => {
    const seen: string[][] = [];
    const parser = new EventParser((name, data) => seen.push([name, data]));
    for (let at = 0; at < STREAM.length; at += size) parser.feed(STREAM.slice(at, at + size));
    expect(seen).toEqual(MESSAGES);
  });
});
