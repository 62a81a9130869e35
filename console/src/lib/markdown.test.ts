import { describe, expect, it } from 'vitest';
import { markdownWriter, safeAddress } from './markdown';

function drawn(text: string, pieces = 1): HTMLElement {
  const root = document.createElement('div');
  const writer = markdownWriter(root);
  const size = Math.ceil(text.length / pieces);
  for (let start = 0; start < text.length; start += size) writer.write(text.slice(start, start + size));
  writer.end();
  return root;
}

/** As HTML, without the paragraph around it. */
function marked(node: Node): string {
  return [...node.childNodes].map((child) => {
    if (!(child instanceof Element)) return child.textContent ?? '';
    const tag = child.tagName.toLowerCase();
    return tag === 'p' ? marked(child) : tag === 'br' ? '<br>' : `<${tag}>${marked(child)}</${tag}>`;
  }).join('');
}

function depth(element: Element): number {
  let deepest = 0;
  for (let node: Element | null = element, level = 0; node; node = node.firstElementChild, level += 1) deepest = level;
  return deepest;
}

describe('Markdown of a model', () => {
  it('becomes the same nodes in one piece and in many', () => {
    const text = '# Title\n\nSome **bold** text, `code` and\n\n```python\nprint(1)\n```\n\n- one\n- two\n';
    expect(drawn(text, 17).innerText).toBe(drawn(text).innerText);
    expect(drawn(text).querySelector('pre code')?.textContent).toContain('print(1)');
  });

  it('never becomes an element that runs or loads something', () => {
    const root = drawn('<script>alert(1)</script> <img src=x onerror=alert(1)> ![pixel](https://example.com/p.png) <iframe src="/">');
    expect(root.querySelector('script, img, iframe, object, embed, link, style')).toBeNull();
    expect(root.textContent).toContain('<script>');
    expect(root.querySelector('a')?.textContent).toBe('Image: pixel');
  });

  it.each(['javascript:alert(1)', 'JaVaScRiPt:alert(1)', ' javascript:alert(1)', 'data:text/html,x', 'vbscript:x', 'file:///etc/passwd', '//example.com', '/api/session'])(
    'has no link to %s',
    (address) => {
      expect(safeAddress(address)).toBeNull();
      expect(drawn(`[click](${address})`).querySelector('a[href]')).toBeNull();
    },
  );

  it.each([
    ['use max_cost_usd and all_names', 'use max_cost_usd and all_names'],
    ['last_page is empty\nlen(x)', 'last_page is empty<br>len(x)'],
    ['_foo_bar_ and __a_b__', '<em>foo_bar</em> and <strong>a_b</strong>'],
    ['trailing_, snake_case_ (x_) y__', 'trailing_, snake_case_ (x_) y__'],
    ['**max_cost** *a_b* (_x_) "_y_", _z_.', '<strong>max_cost</strong> <em>a_b</em> (<em>x</em>) "<em>y</em>", <em>z</em>.'],
    ['`a_b` größe_ä_ж', '<code>a_b</code> größe_ä_ж'],
  ])('keeps underscores inside words: %s', (text, html) => {
    for (const pieces of [1, 3, text.length]) expect(marked(drawn(text, pieces))).toBe(html);
  });

  it('keeps underscores of addresses, code and tables', () => {
    const root = drawn('[a_b](https://example.com/c_d) https://example.com/e_f\n\n```my_lang\ng_h = _i_\n```\n\n| j_k | l_m |\n|---|---|\n| n_o | p_q |\n', 5);
    expect([...root.querySelectorAll('a')].map(({ href }) => href)).toEqual(['https://example.com/c_d', 'https://example.com/e_f']);
    expect(root.querySelector('pre code')?.textContent).toContain('g_h = _i_');
    expect([...root.querySelectorAll('th, td')].map(({ textContent }) => textContent?.trim())).toEqual(['j_k', 'l_m', 'n_o', 'p_q']);
    expect(root.textContent).not.toContain('\ufdd0');
  });

  it('opens links elsewhere and says where they go', () => {
    const anchor = drawn('[docs](https://example.com/a)').querySelector('a');
    expect(anchor?.getAttribute('rel')).toContain('noopener');
    expect(anchor?.title).toBe('https://example.com/a');
    expect(drawn('[docs](https://example.com/a "a title")').querySelector('a')?.getAttribute('href')).toBe('https://example.com/a');
  });

  it('is not nested without limit', () => {
    const quoted = drawn('> '.repeat(10_000) + 'deep');
    const listed = drawn('- '.repeat(10_000) + 'deep');
    const indented = drawn(Array.from({ length: 300 }, (_, level) => `${'  '.repeat(level)}- x`).join('\n'));
    for (const root of [quoted, listed, indented]) expect(depth(root)).toBeLessThan(100);
  });

  it.each([['a link', '[a]('], ['a fence', '```'], ['an image', '![a](https://example.com/']])('ends in time with %s that does not end', (_, start) => {
    const root = drawn(`${start}${'b'.repeat(200_000)}\n\nafter`);
    expect(root.textContent?.endsWith('after')).toBe(true);
  });
});

describe('details of the page', () => {
  it('has a copy button and the language over each code block', () => {
    const root = drawn('```python\nprint(1)\n```\n\ntext\n');
    const block = root.querySelector('.code-block');
    expect(block?.querySelector('.code-language')?.textContent).toBe('python');
    expect(block?.querySelector('button')?.getAttribute('aria-label')).toBe('Copy the code');
    expect(block?.querySelector('code')?.textContent).toContain('print(1)');
    expect(root.lastElementChild?.textContent).toBe('text');
  });

  it('keeps the dollars of prices and formulas', () => {
    expect(drawn('It costs $5 or $6. And $x^2$.').textContent).toBe('It costs $5 or $6. And $x^2$.');
  });

  it('skips no level of headings', () => {
    const levels = [...drawn('#### deep\n\n# top\n\n###### deeper\n').querySelectorAll('[aria-level]')].map((heading) => heading.getAttribute('aria-level'));
    expect(levels).toEqual(['3', '3', '4']);
  });

  it('splits a paragraph without end between two words', () => {
    const text = 'a word '.repeat(5_000).trim();
    const root = drawn(text, 7);
    expect(root.textContent).toBe(text);
    expect([...root.children].every(({ tagName, textContent }) => tagName === 'P' && (textContent ?? '').length < 10_000)).toBe(true);
    expect(root.children.length).toBeGreaterThan(3);
    expect(drawn('b'.repeat(20_000)).children.length).toBe(1);
  });

  it('names the boxes of task lists', () => {
    expect(drawn('- [x] done\n- [ ] open\n').querySelectorAll('input[aria-label]').length).toBe(2);
  });
});
