import { svelte } from '@sveltejs/vite-plugin-svelte';
import { readFileSync } from 'node:fs';
import { defineConfig, type Plugin } from 'vite';

// `npm run dev` shows the page against a running `counsel serve`: COUNSEL_URL, COUNSEL_TOKEN.
const server = process.env.COUNSEL_URL ?? 'http://127.0.0.1:3157';
const headers = process.env.COUNSEL_TOKEN ? { authorization: `Bearer ${process.env.COUNSEL_TOKEN}` } : {};

/** A script that runs before the first paint: a module would run after it, and the policy allows no inline script. */
function blockingScript(path: string): Plugin {
  return {
    name: 'blocking-script',
    apply: 'build',
    buildStart() {
      this.emitFile({ type: 'asset', name: 'theme.js', source: readFileSync(path, 'utf8') });
    },
    transformIndexHtml(_, { bundle }) {
      const file = Object.values(bundle ?? {}).find((part) => part.type === 'asset' && part.names.includes('theme.js'));
      return file ? [{ tag: 'script', attrs: { src: `/${file.fileName}` }, injectTo: 'head-prepend' }] : [];
    },
  };
}

export default defineConfig({
  plugins: [svelte(), blockingScript('src/theme-before-paint.js')],
  build: {
    outDir: '../src/counsel/http/console/page',
    emptyOutDir: true,
    target: 'es2022',
    cssTarget: ['chrome123', 'firefox120', 'safari17.5'], // light-dark()
    sourcemap: false,
    assetsInlineLimit: 0, // the page's Content-Security-Policy allows files of this server only
    modulePreload: { polyfill: false },
    license: { fileName: 'licenses.md' },
  },
  server: {
    proxy: { '/api': { target: server, headers, changeOrigin: true } },
  },
});
