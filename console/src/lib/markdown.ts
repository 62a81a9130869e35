// Markdown as DOM nodes, piece by piece. No part of a model's text becomes HTML, runs, or is loaded: an image becomes a
// link, and a link has a safe scheme.
import {
  Attr,
  default_renderer,
  parser,
  parser_end,
  parser_write,
  Token,
  type Default_Renderer,
  type Parser,
} from 'streaming-markdown';
import { copy } from './toasts.svelte';

const DEEPEST = 40; // levels of nested elements; deeper ones become siblings
const ABOVE = 2; // levels of the page's own headings
const FORMULAS: Partial<Record<Token, string>> = { [Token.Equation_Block]: '$$', [Token.Equation_Inline]: '$' }; // shown as written, not drawn; so prices stay, too
// The parser keeps an unfinished link or fence, and scans it again with each character: 300,000 characters took 160 s.
// Beyond this length it becomes text.
const LONGEST_PENDING = 4_000;
const PIECE = 500;
// The parser would set `max_cost_usd` in italics, without its underscores. Underscores that are text are replaced by this
// character before parsing, and restored afterwards.
const UNDERSCORE = '\ufdd0'; // a noncharacter
const WORD = /[\p{L}\p{N}]/u;
const LONGEST_PARAGRAPH = 8_000; // characters; the browser lays out a whole paragraph for each word that is added: 1 s for 2 MB
const SAFE_SCHEMES = new Set(['http:', 'https:', 'mailto:']);

/** The address if it is safe to open, else null. */
export function safeAddress(address: string): string | null {
  try {
    const url = new URL(address.trim());
    return SAFE_SCHEMES.has(url.protocol) ? url.href : null;
  } catch {
    return null; // relative addresses have no meaning here
  }
}

export interface Writer {
  write(text: string): void;
  end(): void;
}

/** Writes Markdown into an element. `finishedCode` is called for each complete code block. */
export function markdownWriter(root: HTMLElement, finishedCode: (code: HTMLElement) => void = () => undefined): Writer {
  let state: Parser = parser(safeRenderer(root, finishedCode));
  let last = ''; // the last character written
  let pendingRun = ''; // underscores, until the next character is known
  const parse = (piece: string): void => {
    if (piece === '') return;
    last = piece.slice(-1);
    parser_write(state, piece);
    if (state.pending.length <= LONGEST_PENDING) return;
    parser_end(state); // as text
    state = parser(safeRenderer(root, finishedCode));
  };
  const underscores = (run: string, next: string): void => {
    const isText = WORD.test(last) && (WORD.test(next) || !emphasises(state));
    parse(isText ? UNDERSCORE.repeat(run.length) : run);
  };
  const write = (piece: string): void => {
    const text = pendingRun + piece;
    pendingRun = '';
    let start = 0;
    for (const { 0: run, index } of text.matchAll(/_+/g)) {
      parse(text.slice(start, index));
      start = index + run.length;
      const next = text[start];
      if (next === undefined) pendingRun = run;
      else underscores(run, next);
    }
    parse(text.slice(start));
  };
  return {
    write: (text) => {
      for (let start = 0; start < text.length; start += PIECE) write(text.slice(start, start + PIECE));
    },
    end: () => {
      if (pendingRun) underscores(pendingRun, '');
      parser_end(state);
    },
  };
}

/** Whether an underscore has begun an emphasis that has not ended. */
function emphasises(state: Parser): boolean {
  return state.tokens.slice(0, state.len + 1).some((token) => token === Number(Token.Italic_Und) || token === Number(Token.Strong_Und));
}

function restoreUnderscores(text: string): string {
  return text.replaceAll(UNDERSCORE, '_');
}

function safeRenderer(root: HTMLElement, finishedCode: (code: HTMLElement) => void): Default_Renderer {
  const base = default_renderer(root);
  let level = ABOVE; // of the last heading, for those who navigate by headings
  let current: HTMLElement | undefined; // the element with the newest text
  let length = 0; // characters of `current`
  let flattened = 0; // tokens beyond the deepest level, which have no element
  return {
    data: base.data,
    add_token: (data, type) => {
      if (data.index >= DEEPEST) {
        flattened += 1;
        return;
      }
      base.add_token(data, type === Token.Image ? Token.Link : type);
      const element = data.nodes[data.index];
      if (!element) return;
      if (type === Token.Image) element.append('Image: ');
      if (type === Token.Code_Fence || type === Token.Code_Block) frameCode(element);
      if (type === Token.Checkbox) element.setAttribute('aria-label', 'Done');
      if (type === Token.Table) element.setAttribute('tabindex', '0'); // it may scroll
      if (FORMULAS[type]) element.append(FORMULAS[type]);
      if (/^H[1-6]$/.test(element.tagName)) {
        level = Math.min(level + 1, Number(element.tagName[1]) + ABOVE);
        element.setAttribute('aria-level', String(level));
      }
    },
    end_token: (data) => {
      if (flattened > 0) {
        flattened -= 1;
        return;
      }
      const element = data.nodes[data.index];
      const formula = element?.tagName === 'EQUATION-BLOCK' ? '$$' : element?.tagName === 'EQUATION-INLINE' ? '$' : null;
      if (formula) element?.append(formula);
      if (element?.tagName === 'A' && element.textContent === 'Image: ') element.append(element.getAttribute('href') ?? '');
      if (element instanceof HTMLElement && element.tagName === 'CODE' && element.parentElement?.tagName === 'PRE') finishedCode(element);
      base.end_token(data);
    },
    add_text: (data, raw) => {
      const text = restoreUnderscores(raw);
      const paragraph = data.nodes[data.index];
      if (paragraph !== current) [current, length] = [paragraph, 0];
      length += text.length;
      const space = length > LONGEST_PARAGRAPH && data.index === 1 && paragraph?.tagName === 'P' ? text.search(/\s/) : -1;
      if (space < 0 || !paragraph) {
        base.add_text(data, text);
        return;
      }
      base.add_text(data, text.slice(0, space + 1));
      const next = make('p', 'continued');
      paragraph.after(next);
      data.nodes[data.index] = next;
      base.add_text(data, text.slice(space + 1));
    },
    set_attr: (data, type, raw) => {
      if (flattened > 0) return;
      const value = restoreUnderscores(raw);
      const element = data.nodes[data.index];
      if (!(element instanceof HTMLElement)) return;
      if (type === Attr.Href || type === Attr.Src) setLink(element, value);
      else if (type === Attr.Lang) setLanguage(element, value);
      else if (type === Attr.Checked) element.setAttribute('checked', '');
      else if (type === Attr.Start) element.setAttribute('start', value);
    },
  };
}

/** Adds a bar above the block with its language and a copy button. */
function frameCode(code: HTMLElement): void {
  const pre = code.parentElement;
  if (!pre?.parentElement) return;
  pre.setAttribute('tabindex', '0');
  const block = make('div', 'code-block');
  const bar = make('div', 'code-bar');
  const button = make('button', 'btn ghost small');
  button.setAttribute('type', 'button');
  button.textContent = 'Copy';
  button.setAttribute('aria-label', 'Copy the code');
  button.addEventListener('click', () => void copy(code.textContent ?? '', 'Code copied'));
  bar.append(make('span', 'code-language'), button);
  pre.replaceWith(block);
  block.append(bar, pre);
}

function setLanguage(code: HTMLElement, language: string): void {
  code.dataset.lang = language;
  const label = code.closest('.code-block')?.querySelector('.code-language');
  if (label) label.textContent = language.slice(0, 30);
}

function make(tag: string, className: string): HTMLElement {
  const element = document.createElement(tag);
  element.className = className;
  return element;
}

function setLink(element: HTMLElement, address: string): void {
  const safe = safeAddress(address.trim().replace(/\s+["'(].*$/s, '').replace(/^<(.*)>$/s, '$1')); // without a title
  if (safe === null) {
    element.title = 'This link is not shown as a link.';
    return;
  }
  element.setAttribute('href', safe);
  element.setAttribute('target', '_blank');
  element.setAttribute('rel', 'noopener noreferrer nofollow');
  element.title = safe; // shows the real address, whatever the text says
}
