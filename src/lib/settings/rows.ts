/**
 * What the settings are called, read from the JSON schema of a configuration: this folder knows no setting by name.
 */
export interface SettingRow {
  path: string;
  env: string;
  alias?: string;
  flag?: string;
  default: unknown;
  unit: string;
  expected: string;
  secret: boolean;
  sentence: string;
}

export interface Rules {
  schema: Record<string, unknown>;
  prefix: string;
  aliases: Record<string, { env?: string; flag?: string }>;
  otherEnv?: readonly string[];
}

interface Node {
  type?: string;
  properties?: Record<string, Node>;
  enum?: string[];
  default?: unknown;
  minimum?: number;
  maximum?: number;
  unit?: string;
  secret?: boolean;
  description?: string;
}

/** `session.ttlMs` is SESSION_TTL_MS: an underscore at dots and humps. */
function envName(prefix: string, path: string): string {
  return (
    prefix +
    path
      .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
      .replaceAll('.', '_')
      .toUpperCase()
  );
}

function expectation(node: Node): string {
  if (node.enum) return `one of ${node.enum.join(', ')}`;
  if (node.type === 'integer') return `a whole number from ${node.minimum} to ${node.maximum} (${node.unit})`;
  if (node.type === 'boolean') return 'true or false';
  if (node.type === 'array') return 'a list of texts (in the environment separated by commas)';
  if (node.type === 'object') return 'an object (in the environment as JSON)';
  return 'a text that is not empty';
}

export function describe({ schema, prefix, aliases }: Rules): SettingRow[] {
  const rows: SettingRow[] = [];
  const walk = (node: Node, path: string): void => {
    if (node.properties) {
      for (const [key, child] of Object.entries(node.properties)) walk(child, path === '' ? key : `${path}.${key}`);
      return;
    }
    const { env: alias, flag } = aliases[path] ?? {};
    rows.push({
      path,
      env: envName(prefix, path),
      ...(alias === undefined ? {} : { alias }),
      ...(flag === undefined ? {} : { flag }),
      default: node.default,
      unit: node.unit ?? '',
      expected: expectation(node),
      secret: node.secret ?? false,
      sentence: node.description ?? '',
    });
  };
  walk(schema as Node, '');
  return rows;
}
