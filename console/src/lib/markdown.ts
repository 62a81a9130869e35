// Markdown as DOM nodes, piece by piece. Nothing of a model's text becomes HTML, runs, or is loaded: an image is a link,
// and a link has a scheme that people know.
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

const DEEPEST = 40; // elements inside each other; deeper ones are put beside each other
const SAFE_SCHEMES = new Set(['http:', 'https:', 'mailto:']);

/** The address if a click on it may do no harm, else null. */
export function safeAddress(address: string): string | null {
  try {
    const url = new URL(address.trim());
    return SAFE_SCHEMES.has(url.protocol) ? url.href : null;
  } catch {
    return null; // a relative address means something to its author only
  }
}

export interface Writer {
  write(text: string): void;
  end(): void;
}

/** Writes Markdown into an element. `finishedCode` is called for every code block that is complete. */
export function markdownWriter(root: HTMLElement, finishedCode: (code: HTMLElement) => void = () => undefined): Writer {
  const renderer = safeRenderer(root, finishedCode);
  const state: Parser = parser(renderer);
  return {
    write: (text) => parser_write(state, text),
    end: () => parser_end(state),
  };
}

function safeRenderer(root: HTMLElement, finishedCode: (code: HTMLElement) => void): Default_Renderer {
  const plain = default_renderer(root);
  let flattened = 0; // tokens beyond the deepest level: they have no element of their own
  return {
    data: plain.data,
    add_token: (data, type) => {
      if (data.index >= DEEPEST) {
        flattened += 1;
        return;
      }
      plain.add_token(data, type === Token.Image ? Token.Link : type);
      const element = data.nodes[data.index];
      if (type === Token.Image) element?.append('Image: ');
      if (type === Token.Code_Fence || type === Token.Code_Block) element?.parentElement?.setAttribute('tabindex', '0');
    },
    end_token: (data) => {
      if (flattened > 0) {
        flattened -= 1;
        return;
      }
      const element = data.nodes[data.index];
      if (element?.tagName === 'A' && element.textContent === 'Image: ') element.append(element.getAttribute('href') ?? '');
      if (element instanceof HTMLElement && element.tagName === 'CODE' && element.parentElement?.tagName === 'PRE') finishedCode(element);
      plain.end_token(data);
    },
    add_text: (data, text) => plain.add_text(data, text),
    set_attr: (data, type, value) => {
      if (flattened > 0) return;
      const element = data.nodes[data.index];
      if (!(element instanceof HTMLElement)) return;
      if (type === Attr.Href || type === Attr.Src) setLink(element, value);
      else if (type === Attr.Lang) element.dataset.lang = value;
      else if (type === Attr.Checked) element.setAttribute('checked', '');
      else if (type === Attr.Start) element.setAttribute('start', value);
    },
  };
}

function setLink(element: HTMLElement, address: string): void {
  const safe = safeAddress(address);
  if (safe === null) {
    element.title = 'This link is not shown as a link.';
    return;
  }
  element.setAttribute('href', safe);
  element.setAttribute('target', '_blank');
  element.setAttribute('rel', 'noopener noreferrer nofollow');
  element.title = safe; // where it goes, whatever its text says
}
