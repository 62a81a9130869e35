// The list of conversations: searched by the server, page by page.
import { api, part, type Schema } from '../../lib/api';

export type Summary = Schema['ConversationSummary'];
const PAGE = 30;

export class Conversations {
  list = $state.raw<Summary[]>([]);
  state = $state<'loading' | 'ready' | 'failed'>('loading');
  error = $state.raw<unknown>(null);
  query = $state('');
  next = $state.raw<string | null>(null);
  private asked = 0;
  private busy = false;

  /** Loads the first page again; pages loaded by scrolling stay. */
  async load(): Promise<void> {
    this.asked += 1;
    const asked = this.asked;
    const query = this.query.trim();
    try {
      const page = await api.get<Schema['Conversations']>('/api/conversations', { limit: PAGE, q: query });
      if (asked !== this.asked) return;
      const newIds = new Set(page.conversations.map(({ id }) => id));
      const keepsPages = this.shown === query && this.list.length > PAGE;
      this.list = [...page.conversations, ...(keepsPages ? this.list.slice(PAGE).filter(({ id }) => !newIds.has(id)) : [])];
      if (!keepsPages) this.next = page.next;
      this.shown = query;
      this.state = 'ready';
      this.error = null;
    } catch (error) {
      if (asked !== this.asked) return;
      this.error = error;
      this.state = 'failed';
    }
  }

  private shown = ''; // the query of `list`

  async more(): Promise<void> {
    if (this.busy || this.next === null) return;
    this.busy = true;
    const asked = this.asked;
    try {
      const page = await api.get<Schema['Conversations']>('/api/conversations', { limit: PAGE, q: this.query.trim(), cursor: this.next });
      if (asked !== this.asked) return;
      const loadedIds = new Set(this.list.map(({ id }) => id));
      this.list = [...this.list, ...page.conversations.filter(({ id }) => !loadedIds.has(id))];
      this.next = page.next;
    } finally {
      this.busy = false;
    }
  }

  async remove(id: string): Promise<void> {
    await api.delete(`/api/conversations/${part(id)}`);
    this.list = this.list.filter((row) => row.id !== id);
  }
}
