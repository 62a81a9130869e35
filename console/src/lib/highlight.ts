// Colours code blocks. highlight.js is loaded with the first block. Its result becomes nodes, not HTML.
import type { HLJSApi } from 'highlight.js';

const LONGEST = 50_000; // characters; longer blocks are not coloured
let loading: Promise<HLJSApi> | null = null;

async function load(): Promise<HLJSApi> {
  const [core, ...languages] = await Promise.all([
    import('highlight.js/lib/core'),
    import('highlight.js/lib/languages/bash'),
    import('highlight.js/lib/languages/c'),
    import('highlight.js/lib/languages/cpp'),
    import('highlight.js/lib/languages/css'),
    import('highlight.js/lib/languages/diff'),
    import('highlight.js/lib/languages/go'),
    import('highlight.js/lib/languages/ini'),
    import('highlight.js/lib/languages/java'),
    import('highlight.js/lib/languages/javascript'),
    import('highlight.js/lib/languages/json'),
    import('highlight.js/lib/languages/python'),
    import('highlight.js/lib/languages/rust'),
    import('highlight.js/lib/languages/sql'),
    import('highlight.js/lib/languages/typescript'),
    import('highlight.js/lib/languages/xml'),
    import('highlight.js/lib/languages/yaml'),
  ]);
  const names = ['bash', 'c', 'cpp', 'css', 'diff', 'go', 'ini', 'java', 'javascript', 'json', 'python', 'rust', 'sql', 'typescript', 'xml', 'yaml'];
  const highlighter = core.default;
  names.forEach((name, index) => {
    const language = languages[index];
    if (language) highlighter.registerLanguage(name, language.default);
  });
  highlighter.registerAliases(['toml'], { languageName: 'ini' });
  return highlighter;
}

export async function highlight(code: HTMLElement): Promise<void> {
  const language = code.dataset.lang?.toLowerCase();
  const text = code.textContent ?? '';
  if (!language || text.length > LONGEST) return;
  loading ??= load();
  const highlighter = await loading;
  if (!highlighter.getLanguage(language) || code.textContent !== text) return;
  const result = highlighter.highlight(text, { language, ignoreIllegals: true });
  code.replaceChildren(nodesOf((result._emitter as unknown as { rootNode: HighlightNode }).rootNode));
}

interface HighlightNode {
  scope?: string;
  children: (HighlightNode | string)[];
}

function nodesOf(node: HighlightNode): DocumentFragment {
  const fragment = document.createDocumentFragment();
  for (const child of node.children) {
    if (typeof child === 'string') {
      fragment.append(child);
    } else {
      const span = document.createElement('span');
      if (child.scope) span.className = `hljs-${child.scope.split('.')[0]}`;
      span.append(nodesOf(child));
      fragment.append(span);
    }
  }
  return fragment;
}
