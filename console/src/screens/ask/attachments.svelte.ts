// Files and images of the next question: checked here, so that a person reads at once what is wrong.
import { address, ApiError } from '../../lib/api';
import { dataUrl } from '../../lib/blobs';
import { bytes } from '../../lib/format';

export const IMAGE_TYPES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];
export const LARGEST_IMAGE = 10 * 1024 * 1024; // COUNSEL_MAX_IMAGE_BYTES, unless it was changed: then the server says so
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
  share = $state(0); // of a file that has been sent, 0 to 1
  stop: () => void = () => undefined; // its upload

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

/** `fetch` does not report how much of a body has been sent. */
function upload(file: File, attachment: Attachment): Promise<string> {
  const sending = new XMLHttpRequest();
  attachment.stop = () => sending.abort();
  return new Promise((resolve, reject) => {
    sending.open('POST', address('/api/files', { name: file.name }));
    sending.setRequestHeader('x-counsel', '1');
    sending.setRequestHeader('content-type', 'application/octet-stream');
    sending.responseType = 'json';
    sending.upload.onprogress = ({ loaded, total }) => (attachment.share = total > 0 ? loaded / total : 0);
    sending.onload = () => {
      const answer = (sending.response ?? {}) as { path?: string; error?: string; code?: string; hint?: string };
      if (sending.status < 300 && answer.path) resolve(answer.path);
      else reject(new ApiError(answer.error ?? `The server answered with status ${sending.status}.`, answer.code ?? `HTTP_${sending.status}`, answer.hint ?? null, sending.status));
    };
    sending.onerror = () => reject(new ApiError('The upload was interrupted.', 'UNREACHABLE', null, 0));
    sending.onabort = sending.onerror;
    sending.send(file);
  });
}
