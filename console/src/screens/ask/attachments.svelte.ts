// Files and images of the next question. They are checked here, so that problems are shown at once.
import { address, ApiError } from '../../lib/api';
import { dataUrl } from '../../lib/blobs';
import { bytes } from '../../lib/format';

export const IMAGE_TYPES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];
export const LARGEST_IMAGE = 10 * 1024 * 1024; // the default of COUNSEL_MAX_IMAGE_BYTES; the server checks its own value
export const MOST_IMAGES = 20;
const LARGEST_TOGETHER = 44 * 1024 * 1024; // a request has 64 MiB, and base64 takes a third more

export class Attachment {
  readonly id: number;
  readonly name: string;
  readonly size: number;
  readonly kind: 'image' | 'file';
  state = $state<'reading' | 'ready' | 'failed'>('reading');
  problem = $state<string | null>(null);
  code = $state<string | null>(null);
  data = $state.raw<string | null>(null); // an image as data URL
  path: string | null = null; // of a file, on the server
  share = $state(0); // uploaded so far, 0 to 1
  stop: () => void = () => undefined; // aborts the upload

  constructor(id: number, file: File) {
    this.id = id;
    this.name = file.name || 'pasted image';
    this.size = file.size;
    this.kind = file.type.startsWith('image/') ? 'image' : 'file';
  }

  fail(problem: string, code: string | null = null): void {
    this.state = 'failed';
    this.problem = problem;
    this.code = code;
  }
}

/** Why an image cannot be sent, or null. */
export function imageProblem(type: string, size: number, others: { count: number; size: number }): string | null {
  if (!IMAGE_TYPES.includes(type)) return `Models read PNG, JPEG, GIF and WebP, not ${type.replace('image/', '') || 'this type'}.`;
  if (size > LARGEST_IMAGE) return `${bytes(size)}: an image may have up to ${bytes(LARGEST_IMAGE)}.`;
  if (others.count >= MOST_IMAGES) return `A question may have up to ${MOST_IMAGES} images.`;
  if (others.size + size > LARGEST_TOGETHER) return `All images together may have up to ${bytes(LARGEST_TOGETHER)}.`;
  return null;
}

export class Attachments {
  list = $state.raw<Attachment[]>([]);
  private last = 0;

  get busy(): boolean {
    return this.list.some(({ state }) => state === 'reading');
  }

  get ready(): Attachment[] {
    return this.list.filter(({ state }) => state === 'ready');
  }

  get failed(): boolean {
    return this.list.some(({ state }) => state === 'failed');
  }

  async add(files: Iterable<File>): Promise<void> {
    await Promise.all([...files].map((file) => this.addOne(file)));
  }

  private async addOne(file: File): Promise<void> {
    this.last += 1;
    const added = new Attachment(this.last, file);
    const images = this.list.filter(({ kind, state }) => kind === 'image' && state !== 'failed');
    this.list = [...this.list, added];
    const problem = added.kind === 'image' ? imageProblem(file.type, file.size, { count: images.length, size: images.reduce((sum, { size }) => sum + size, 0) }) : null;
    if (problem) {
      added.fail(problem);
      return;
    }
    try {
      if (added.kind === 'image') added.data = await dataUrl(file);
      else added.path = await upload(file, added);
      added.state = 'ready';
    } catch (error) {
      added.fail(error instanceof Error ? error.message : 'The file cannot be read.', error instanceof ApiError ? error.code : null);
    }
  }

  remove(id: number): void {
    this.list.find((attachment) => attachment.id === id)?.stop();
    this.list = this.list.filter((attachment) => attachment.id !== id);
  }

  clear(): void {
    this.list = [];
  }
}

/** Uploads a file with XMLHttpRequest, because `fetch` reports no progress. */
function upload(file: File, attachment: Attachment): Promise<string> {
  const request = new XMLHttpRequest();
  attachment.stop = () => request.abort();
  return new Promise((resolve, reject) => {
    request.open('POST', address('/api/files', { name: file.name }));
    request.setRequestHeader('x-counsel', '1');
    request.setRequestHeader('content-type', 'application/octet-stream');
    request.responseType = 'json';
    request.upload.onprogress = ({ loaded, total }) => (attachment.share = total > 0 ? loaded / total : 0);
    request.onload = () => {
      const answer = (request.response ?? {}) as { path?: string; error?: string; code?: string; hint?: string };
      if (request.status < 300 && answer.path) resolve(answer.path);
      else reject(new ApiError(answer.error ?? `The server answered with status ${request.status}.`, answer.code ?? `HTTP_${request.status}`, answer.hint ?? null, request.status));
    };
    request.onerror = () => reject(new ApiError('The upload was interrupted.', 'UNREACHABLE', null, 0));
    request.onabort = request.onerror;
    request.send(file);
  });
}
