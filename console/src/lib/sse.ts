// Server-sent events by `fetch`. An EventSource cannot set headers, and over plain HTTP from another machine only a header
// tells the server that the request comes from its own page.
import { address, type Query } from './api';

export interface Listener {
  opened: () => void;
  message: (name: string, data: string) => void;
  /** The stream has ended or could not be opened. `answered`: the server refused it. */
  ended: (answered: boolean) => void;
}

/** Opens a stream. Call the result to close it. */
export function openEvents(path: string, query: Query, listener: Listener): () => void {
  const control = new AbortController();
  void read(address(path, query), control.signal, listener).then((answered) => {
    if (!control.signal.aborted) listener.ended(answered);
  });
  return () => control.abort();
}

async function read(url: string, signal: AbortSignal, listener: Listener): Promise<boolean> {
  try {
    const response = await fetch(url, { headers: { 'x-counsel': '1', accept: 'text/event-stream' }, credentials: 'same-origin', cache: 'no-store', signal });
    if (!response.ok || !response.body) return true;
    listener.opened();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new EventParser(listener.message);
    for (;;) {
      const { done, value } = await reader.read();
      if (done || signal.aborted) return false;
      parser.feed(value);
    }
  } catch {
    return false; // the connection was lost
  }
}

/** Parses messages, which end with an empty line. The server sends `event`, `data` and comments, with line feeds. */
export class EventParser {
  private readonly message: (name: string, data: string) => void;
  private pieces: string[] = []; // of an incomplete message; joined once
  private last = '';

  constructor(message: (name: string, data: string) => void) {
    this.message = message;
  }

  feed(text: string): void {
    const parts = (this.last + text).split('\n\n');
    const rest = parts.pop() ?? '';
    for (const part of parts) {
      this.dispatch(this.pieces.length > 0 ? [...this.pieces, part].join('') : part);
      this.pieces = [];
    }
    // The next piece may begin with the second line feed.
    this.last = rest.endsWith('\n') ? '\n' : '';
    const complete = this.last ? rest.slice(0, -1) : rest;
    if (complete) this.pieces.push(complete);
  }

  private dispatch(block: string): void {
    let name = 'message';
    const data: string[] = [];
    for (const line of block.split('\n')) {
      if (line.startsWith('event: ')) name = line.slice(7);
      else if (line.startsWith('data: ')) data.push(line.slice(6));
    }
    if (data.length > 0) this.message(name, data.join('\n'));
  }
}
