import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

// `npm run dev` shows the page against a running `counsel serve`: COUNSEL_URL, COUNSEL_TOKEN.
const server = process.env.COUNSEL_URL ?? 'http://127.0.0.1:3157';
const headers = process.env.COUNSEL_TOKEN ? { authorization: `Bearer ${process.env.COUNSEL_TOKEN}` } : {};

export default defineConfig({
  plugins: [svelte()],
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
