import { mount } from 'svelte';
import App from './App.svelte';
import './app.css';

const target = document.getElementById('app');
if (target) {
  target.replaceChildren(); // what index.html shows until here, which App draws again
  mount(App, { target });
}
