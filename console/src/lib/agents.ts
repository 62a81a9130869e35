// Display names of the agents.

const LABELS: Record<string, string> = {
  claude: 'Claude Code',
  codex: 'Codex',
  gemini: 'Gemini CLI',
  cursor: 'Cursor',
  opencode: 'OpenCode',
  vscode: 'VS Code',
};

export const agentLabel = (agent: string): string => LABELS[agent] ?? agent;
