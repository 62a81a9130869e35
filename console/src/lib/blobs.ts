// Images and files of the server. The page fetches them itself: a browser's request for an <img> or a link lacks our
// header, and over plain HTTP from another machine the server refuses it.
import { ApiError } from './api';

export async function blob(path: string): Promise<Blob> {
  const response = await fetch(path, { headers: { 'x-counsel': '1' }, credentials: 'same-origin' });
  if (response.ok) return response.blob();
  const document = (await response.json().catch(() => ({}))) as { error?: string; code?: string; hint?: string };
  throw new ApiError(document.error ?? `The server answered with status ${response.status}.`, document.code ?? `HTTP_${response.status}`, document.hint ?? null, response.status);
}

/** An address for an <img>, and a function that releases it. */
export async function imageUrl(address: string): Promise<[string, () => void]> {
  if (!address.startsWith('/api/')) return [address, () => undefined];
  const url = URL.createObjectURL(await blob(address));
  return [url, () => URL.revokeObjectURL(url)];
}

export function dataUrl(file: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new Error('The file cannot be read.'));
    reader.readAsDataURL(file);
  });
}

export async function download(path: string, name: string): Promise<void> {
  const url = URL.createObjectURL(await blob(path));
  const anchor = document.createElement('a');
  anchor.href = url;
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000); // the browser reads it after the click
}
