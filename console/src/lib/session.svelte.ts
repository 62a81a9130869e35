// Whether this browser is signed in, and where the server runs.
import { api, ApiError, onSignedOut, type Schema } from './api';

export type Session = Schema['ConsoleSession'];

export const session = $state<{ state: 'unknown' | 'in' | 'out' | 'unreachable'; about: Session | null; error: ApiError | null }>({
  state: 'unknown',
  about: null,
  error: null,
});

onSignedOut(() => {
  session.state = 'out';
});

/** At the start: with the one-time key of `/login#KEY`, if there is one, else with the cookie. */
export async function begin(): Promise<void> {
  if (location.pathname === '/login') {
    const key = location.hash.slice(1);
    history.replaceState(null, '', '/'); // the key stays in no history
    if (key) {
      await signIn(key);
      return;
    }
  }
  await load();
}

export async function signIn(key: string): Promise<void> {
  session.error = null;
  try {
    await api.post('/api/session', { key: keyOf(key) });
  } catch (error) {
    session.error = error instanceof ApiError ? error : null;
    session.state = 'out';
    return;
  }
  await load();
}

/** What was pasted: a key, the token, or the whole link. */
export function keyOf(pasted: string): string {
  const text = pasted.trim();
  const hash = text.indexOf('#');
  return text.includes('/login') && hash >= 0 ? text.slice(hash + 1) : text;
}

export async function signOut(): Promise<void> {
  await api.delete('/api/session');
  session.state = 'out';
  session.about = null;
}

export async function load(): Promise<void> {
  try {
    session.about = await api.get<Session>('/api/session');
    session.state = 'in';
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    session.state = error.status === 401 ? 'out' : 'unreachable';
    session.error = error.status === 401 ? session.error : error;
  }
}

/** A path, or a text with paths, as people write them: `~` for the home folder. */
export function tilde(text: string): string {
  const home = session.about?.user_home;
  if (!home || home === '/') return text;
  return text.split(home).map((piece, index) => (index > 0 && /^(?=\/|$|[\s:;,)])/.test(piece) ? `~${piece}` : index > 0 ? home + piece : piece)).join('');
}
