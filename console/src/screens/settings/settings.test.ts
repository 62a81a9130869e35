import { expect, test } from 'vitest';
import { asText, asValue, search, fromEnvironment, inFile, setCommand, sourceText, type Setting } from './settings';

function setting(changes: Partial<Setting>): Setting {
  return {
    name: 'max_files', env: 'COUNSEL_MAX_FILES', description: 'Maximum number of files in one request.', type: 'integer', value: 100, default: 100, source: 'default',
    secret: false, set: false, choices: [], minimum: 1, maximum: null, unit: '', ...changes,
  };
}

test('a text becomes a value of the type of the setting; what does not fit is left to the API', () => {
  expect(asValue(setting({}), ' 7 ')).toBe(7);
  expect(asValue(setting({}), 'many')).toBe('many');
  expect(asValue(setting({ unit: 'bytes' }), '500 MB')).toBe('500 MB');
  expect(asValue(setting({ type: 'strings' }), 'a, b,,c')).toEqual(['a', 'b', 'c']);
  expect(asValue(setting({ type: 'string' }), ' opus ')).toBe('opus');
});

test('lists are shown with commas', () => {
  expect(asText(['a', 'b'])).toBe('a, b');
  expect(asText(null)).toBe('');
  expect(asText(false)).toBe('false');
});

test('commands are those of the command line', () => {
  expect(setCommand(setting({}), '7')).toBe('counsel config set max_files 7');
  expect(setCommand(setting({ name: 'consensus_models', type: 'strings' }), 'gpt-latest, opus')).toBe('counsel config set consensus_models gpt-latest,opus');
  expect(setCommand(setting({}), ' ')).toBe('counsel config unset max_files');
});

test('the source is named shortly', () => {
  const file = setting({ source: 'config.toml: max_files', set: true });
  const variable = setting({ source: 'environment variable COUNSEL_MAX_FILES', set: true });
  expect([inFile(file), sourceText(file)]).toEqual([true, 'config.toml']);
  expect([fromEnvironment(variable), sourceText(variable)]).toEqual([true, 'COUNSEL_MAX_FILES']);
});

test('words are looked for in the name, the variable and the description', () => {
  const list = [setting({}), setting({ name: 'port', env: 'COUNSEL_PORT', description: 'Where it listens.' })];
  expect(search(list, 'maximum max_ request').map(({ name }) => name)).toEqual(['max_files']);
  expect(search(list, 'COUNSEL_PORT').map(({ name }) => name)).toEqual(['port']);
  expect(search(list, '')).toHaveLength(2);
});
