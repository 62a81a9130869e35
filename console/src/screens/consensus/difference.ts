// How much a refined answer differs from the first one. Words are compared, not meaning, and the page says so.

/** The share of different words from which the page says "changed its mind". */
export const CHANGED = 0.5;
const LONGEST_WORDS = 40_000; // characters of both texts that are compared word by word
const LONGEST = 400_000; // characters of both texts that are compared at all
const MOST_COUNTED = 200_000; // characters of each text whose words are counted: about 30 ms
const MOST_CHANGES = 1500; // about 300 ms; the time grows with the square

export interface Part {
  text: string;
  kind: 'same' | 'added' | 'removed';
}

function words(text: string): Map<string, number> {
  const counts = new Map<string, number>();
  for (const word of text.toLowerCase().match(/[\p{L}\p{N}]+(?:['’.-][\p{L}\p{N}]+)*/gu) ?? []) counts.set(word, (counts.get(word) ?? 0) + 1);
  return counts;
}

/** The share of all words of both texts that only one of them has. Repeated words count each time. */
export function shareOfDifferentWords(first: string, refined: string): number {
  const before = words(first);
  const after = words(refined);
  let all = 0;
  let common = 0;
  for (const [word, number] of before) {
    all += number;
    common += 2 * Math.min(number, after.get(word) ?? 0);
  }
  for (const number of after.values()) all += number;
  return all === 0 ? 0 : (all - common) / all;
}

export interface Verdict {
  changed: boolean;
  text: string;
  reason: string;
}

export function verdict(first: string, refined: string): Verdict {
  const share = shareOfDifferentWords(first.slice(0, MOST_COUNTED), refined.slice(0, MOST_COUNTED));
  const percent = Math.round(share * 100);
  const changed = share >= CHANGED;
  const rule = `${percent}% of the words occur in only one of the two answers; from ${CHANGED * 100}% this page says “changed its mind”. It compares words, not meaning.`;
  return { changed, text: changed ? 'changed its mind' : 'kept its answer', reason: rule };
}

/** Differences by words, or by lines for long texts. null if the texts are too long or too different to stay responsive. */
export async function differences(first: string, refined: string): Promise<{ parts: Part[]; by: 'words' | 'lines' } | null> {
  const size = first.length + refined.length;
  if (size > LONGEST) return null;
  const { diffLines, diffWordsWithSpace } = await import('diff');
  if (size <= LONGEST_WORDS) {
    const changes = diffWordsWithSpace(first, refined, { maxEditLength: MOST_CHANGES });
    if (changes) return { parts: parts(changes), by: 'words' };
  }
  const changes = diffLines(first, refined, { maxEditLength: MOST_CHANGES });
  return changes ? { parts: parts(changes), by: 'lines' } : null;
}

function parts(changes: { value: string; added?: boolean; removed?: boolean }[]): Part[] {
  return changes.map(({ value, added, removed }) => ({ text: value, kind: added ? 'added' : removed ? 'removed' : 'same' }));
}
