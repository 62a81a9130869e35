import { mount } from 'svelte';
import App from './App.svelte';
import './app.css';

const target = document.getElementById('app');
if (target) {
  target.replaceChildren(); // remove the placeholder of index.html, which App draws again
  mount(App, { target });
}
