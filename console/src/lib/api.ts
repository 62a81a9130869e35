// Requests to /api. Every failure is an ApiError with the server's message.
import type { components } from './schema';

export type Schema = components['schemas'];
export type Query = Record<string, string | number | boolean | string[] | null | undefined>;

export class ApiError extends Error {
  readonly code: string;
  readonly hint: string | null;
  readonly status: number;
  readonly fields: Record<string, unknown>;

  constructor(message: string, code: string, hint: string | null, status: number, fields: Record<string, unknown> = {}) {
    super(message);
    this.code = code;
    this.hint = hint;
    this.status = status;
    this.fields = fields;
  }
}

let notifySignedOut: () => void = () => undefined;

/** Sets the listener that is called when the server no longer accepts this page's session. */
export function onSignedOut(listener: () => void): void {
  notifySignedOut = listener;
}

export function address(path: string, query: Query = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === null || value === undefined || value === '') continue;
    for (const item of Array.isArray(value) ? value : [value]) search.append(name, String(item));
  }
  const text = search.toString();
  return text ? `${path}?${text}` : path;
}

/** A name as one segment of a path, with its slashes and colons escaped. */
export const part = encodeURIComponent;

export async function request<T>(method: string, path: string, options: { query?: Query; body?: unknown; signal?: AbortSignal; headers?: Record<string, string> } = {}): Promise<T> {
  const headers: Record<string, string> = { 'x-counsel': '1', accept: 'application/json', ...options.headers };
  let body: BodyInit | undefined;
  if (options.body instanceof Blob) {
    body = options.body;
    headers['content-type'] = options.body.type || 'application/octet-stream';
  } else if (options.body !== undefined) {
    body = JSON.stringify(options.body);
    headers['content-type'] = 'application/json';
  }
  let response: Response;
  try {
    response = await fetch(address(path, options.query), { method, headers, body: body ?? null, signal: options.signal ?? null, credentials: 'same-origin', cache: 'no-store' });
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new ApiError('counsel does not answer.', 'UNREACHABLE', 'It may have been stopped: run `counsel console` again.', 0);
  }
  if (response.ok) return (response.status === 204 ? undefined : await response.json()) as T;
  if (response.status === 401 && path !== '/api/session') notifySignedOut();
  throw await failure(response);
}

async function failure(response: Response): Promise<ApiError> {
  try {
    const document = (await response.json()) as Record<string, unknown>;
    const { error, code, hint, ...fields } = document;
    return new ApiError(String(error), String(code), typeof hint === 'string' ? hint : null, response.status, fields);
  } catch {
    return new ApiError(`The server answered with status ${response.status}.`, `HTTP_${response.status}`, null, response.status);
  }
}

export const api = {
  get: <T>(path: string, query?: Query, signal?: AbortSignal) => request<T>('GET', path, { ...(query && { query }), ...(signal && { signal }) }),
  post: <T>(path: string, body: unknown = {}, query?: Query) => request<T>('POST', path, { body, ...(query && { query }) }),
  put: <T>(path: string, body: unknown) => request<T>('PUT', path, { body }),
  patch: <T>(path: string, body: unknown) => request<T>('PATCH', path, { body }),
  delete: <T>(path: string, query?: Query) => request<T>('DELETE', path, { ...(query && { query }) }),
};
