// Numbers, times and money as people read them.

// Made once: a new one for each row of a list costs more than the row (`toLocaleString` makes one each time).
const DAY = new Intl.DateTimeFormat(undefined, { year: 'numeric', month: 'short', day: 'numeric' });
const MOMENT = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
const NUMBER = new Intl.NumberFormat('en');

export function ago(when: string | number | Date, now: number = Date.now()): string {
  const seconds = Math.round((now - new Date(when).getTime()) / 1000);
  if (seconds < 10) return 'just now';
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.round(seconds / 3600)} h ago`;
  if (seconds < 7 * 86400) return `${Math.round(seconds / 86400)} d ago`;
  return DAY.format(new Date(when));
}

export function moment(when: string | number | Date): string {
  return MOMENT.format(new Date(when));
}

export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  const minutes = Math.floor(ms / 60_000);
  const seconds = Math.round((ms % 60_000) / 1000);
  return minutes < 60 ? `${minutes} min ${seconds} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** Null is an unknown price, not a free call. */
export function cost(usd: number | null | undefined): string {
  if (usd === null || usd === undefined) return '?';
  if (usd === 0) return '$0';
  if (usd < 0.0001) return '<$0.0001';
  if (usd < 0.01) return `$${usd.toFixed(4)}`;
  if (usd < 1) return `$${usd.toFixed(3)}`;
  return `$${usd.toFixed(2)}`;
}

export function count(number: number | null | undefined): string {
  if (number === null || number === undefined) return '?';
  if (number < 10_000) return NUMBER.format(number);
  if (number < 1_000_000) return `${(number / 1000).toFixed(number < 100_000 ? 1 : 0)}K`;
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

/** An argument of a shell command, quoted where that is needed. */
export function shell(argument: string): string {
  return /^[\w@%+=:,./-]+$/.test(argument) ? argument : `'${argument.replaceAll("'", `'\\''`)}'`;
}
