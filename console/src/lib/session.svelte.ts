// Whether this browser is signed in, and facts about the server.
import { api, ApiError, onSignedOut, type Schema } from './api';
import type { Screen } from './router.svelte';

export type Session = Schema['ConsoleSession'];
export interface Methods { team: boolean; issuer: string | null }

// Why a sign-in with the issuer failed, by the word that `/login/callback` puts into the address.
const PROBLEMS: Record<string, { text: string; hint: string }> = {
  denied: { text: 'You may not use this server.', hint: 'Ask an admin of the team to add you with the e-mail address that you signed in with.' },
  expired: { text: 'This sign-in was used before, took too long, or began in another browser.', hint: 'Sign in again.' },
  refused: { text: 'The sign-in was cancelled, or the provider refused it.', hint: 'Sign in again, or ask the people who run the provider.' },
  invalid: { text: 'The provider’s answer could not be verified, so nobody was signed in.', hint: 'Sign in again. If it keeps failing, the reason is in the server’s log.' },
  provider: { text: 'The sign-in provider cannot be reached.', hint: 'Try again in a moment, or sign in with your token.' },
};
// Screens about the server's own machine, which a team does not see; and screens that only a team has.
const OF_THE_MACHINE: readonly Screen[] = ['servers', 'skills', 'agents', 'settings'];
const OF_A_TEAM: readonly Screen[] = ['people', 'account'];

export const session = $state<{ state: 'unknown' | 'in' | 'out' | 'unreachable'; about: Session | null; error: ApiError | null; methods: Methods }>({
  state: 'unknown',
  about: null,
  error: null,
  methods: { team: false, issuer: null },
});

/** Whether this person has a screen on this server. */
export function offers(screen: Screen): boolean {
  const person = session.about?.person;
  if (!person) return !OF_A_TEAM.includes(screen);
  return !OF_THE_MACHINE.includes(screen) && (screen !== 'people' || person.role === 'admin');
}

/** Whether this person may ask. Some people of a team may only read. */
export function mayAsk(): boolean {
  return session.about?.person?.role !== 'read-only';
}

onSignedOut(() => {
  void loadMethods().then(() => {
    session.state = 'out';
  });
});

/** Signs in at the start: with the one-time key of `/login#KEY`, if there is one, else with the cookie. */
export async function begin(): Promise<void> {
  if (location.pathname === '/login') {
    const key = location.hash.slice(1);
    const problem = PROBLEMS[new URLSearchParams(location.search).get('problem') ?? ''];
    history.replaceState(null, '', '/'); // keeps the key out of the history
    if (problem) session.error = new ApiError(problem.text, 'SIGN_IN_FAILED', problem.hint, 401);
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

/** Loads the ways to sign in to this server. */
async function loadMethods(): Promise<void> {
  try {
    session.methods = await api.get<Methods>('/login/methods');
  } catch {
    session.methods = { team: false, issuer: null };
  }
}

/** The key in the input: a key, the token, or a whole link. */
export function keyOf(input: string): string {
  const text = input.trim();
  const hash = text.indexOf('#');
  return text.includes('/login') && hash >= 0 ? text.slice(hash + 1) : text;
}

export async function signOut(): Promise<void> {
  await api.delete('/api/session');
  await loadMethods();
  session.state = 'out';
  session.about = null;
}

export async function load(): Promise<void> {
  try {
    session.about = await api.get<Session>('/api/session');
    session.state = 'in';
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 401) await loadMethods();
    session.state = error.status === 401 ? 'out' : 'unreachable';
    session.error = error.status === 401 ? session.error : error;
  }
}

/** A text with `~` in place of the home folder in its paths. */
export function tilde(text: string): string {
  const home = session.about?.user_home;
  if (!home || home === '/') return text;
  return text.split(home).map((piece, index) => (index > 0 && /^(?=\/|$|[\s:;,)])/.test(piece) ? `~${piece}` : index > 0 ? home + piece : piece)).join('');
}
