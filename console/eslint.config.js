import svelte from 'eslint-plugin-svelte';
import globals from 'globals';
import ts from 'typescript-eslint';

export default ts.config(
  { ignores: ['node_modules', 'src/lib/schema.d.ts'] },
  ...ts.configs.strict,
  ...svelte.configs.recommended,
  { languageOptions: { globals: globals.browser } },
  {
    files: ['**/*.svelte', '**/*.svelte.ts'],
    languageOptions: { parserOptions: { parser: ts.parser } },
  },
  {
    rules: {
      'svelte/no-at-html-tags': 'error', // a model's text never becomes HTML
      'svelte/prefer-svelte-reactivity': 'off', // plain maps hold what no template reads
      'svelte/no-navigation-without-resolve': 'off', // routes are in the hash
      'no-restricted-properties': ['error', { property: 'innerHTML' }, { property: 'outerHTML' }],
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_' }],
    },
  },
);
