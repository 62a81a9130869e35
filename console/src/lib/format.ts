// Numbers, times and amounts of money as text.

// Created once: a formatter per row of a list costs more than the row, and `toLocaleString` creates one each time.
const DAY = new Intl.DateTimeFormat(undefined, { year: 'numeric', month: 'short', day: 'numeric' });
const MOMENT = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
const NUMBER = new Intl.NumberFormat('en');

export function ago(when: string | number | Date, now: number = Date.now()): string {
  const seconds = Math.round((now - new Date(when).getTime()) / 1000);
  const [minutes, hours, days] = [60, 3600, 86400].map((unit) => Math.round(seconds / unit)) as [number, number, number];
  if (seconds < 10) return 'just now';
  if (seconds < 60) return `${seconds} s ago`;
  if (minutes < 60) return `${minutes} min ago`;
  if (hours < 24) return `${hours} h ago`;
  if (days < 7) return `${days} d ago`;
  return DAY.format(new Date(when));
}

export function moment(when: string | number | Date): string {
  return MOMENT.format(new Date(when));
}

/** Rounds before it chooses the unit: never `1 min 60 s` or `1000 ms`. */
export function duration(ms: number): string {
  const seconds = Math.round(ms / 1000);
  const minutes = Math.floor(seconds / 60);
  if (Math.round(ms) < 1000) return `${Math.round(ms)} ms`;
  if (ms < 9950) return `${(ms / 1000).toFixed(1)} s`;
  if (seconds < 60) return `${seconds} s`;
  return minutes < 60 ? `${minutes} min ${seconds % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** A job's duration, which the server counts in tenths of a second. */
export function took(seconds: number): string {
  return seconds < 0.1 ? '<0.1 s' : duration(seconds * 1000);
}

/** An amount in US dollars. Null is an unknown price, not a free call. */
export function cost(usd: number | null | undefined): string {
  if (usd === null || usd === undefined) return '?';
  if (usd === 0) return '$0';
  if (usd < 0.0001) return '<$0.0001';
  if (usd < 0.00995) return `$${usd.toFixed(4)}`;
  if (usd < 0.9995) return `$${usd.toFixed(3)}`;
  return `$${usd.toFixed(2)}`;
}

export function count(number: number | null | undefined): string {
  if (number === null || number === undefined) return '?';
  if (number < 10_000) return NUMBER.format(number);
  if (number < 999_500) return `${(number / 1000).toFixed(number < 99_950 ? 1 : 0)}K`;
  return `${(number / 1_000_000).toFixed(1)}M`;
}

export function bytes(size: number): string {
  if (size < 1024) return `${size} B`;
  if (size < 1024 ** 2) return `${(size / 1024).toFixed(size < 10 * 1024 ? 1 : 0)} KB`;
  return `${(size / 1024 ** 2).toFixed(1)} MB`;
}

export function plural(number: number, one: string, many: string = `${one}s`): string {
  return `${NUMBER.format(number)} ${number === 1 ? one : many}`;
}

/** An argument of a shell command, quoted if necessary. */
export function shell(argument: string): string {
  return /^[\w@%+=:,./-]+$/.test(argument) ? argument : `'${argument.replaceAll("'", `'\\''`)}'`;
}
