/**
 * Path locks: `path:<file>` or `path:<dir>/**`. Two conflict when one is the other or lies below it. What stands for one
 * in Redis is its node: `path:` and the segments, whatever form was asked for; `path:` alone is the root of all, `path:/`
 * that of absolute paths.
 */
const prefix = 'path:';
const glob = /[*?[{]|[!@+]\(/;

export interface Taken {
  /** As it stands in events and lists: as asked, or what a glob was widened to. */
  readonly name: string;
  readonly node: string;
  readonly widened: boolean;
}

export const isPath = (name: string): boolean => name.startsWith(prefix);

/** The name of a directory lock by its node. */
export const treeName = (node: string): string =>
  node.endsWith(':') || node.endsWith('/') ? `${node}**` : `${node}/**`;

/** What a lock name means; undefined if it is a path that could be meant for another (`.`, `..`, an empty segment). */
export function takenOf(name: string): Taken | undefined {
  if (!isPath(name)) return { name, node: name, widened: false };
  const asked = name.slice(prefix.length).split('/');
  const tree = asked.at(-1) === '**';
  const at = (tree ? asked.slice(0, -1) : asked).findIndex((segment) => glob.test(segment));
  const widened = at >= 0;
  const segments = widened ? asked.slice(0, at) : tree ? asked.slice(0, -1) : asked;
  const isDirectory = widened || tree;
  // The first segment of an absolute path is empty.
  if (segments.some((segment, i) => segment === '.' || segment === '..' || (segment === '' && i > 0))) return undefined;
  if (segments.length === 1 && segments[0] === '' && !isDirectory) return undefined;
  const path = segments.length === 1 && segments[0] === '' ? '/' : segments.join('/');
  const node = prefix + path;
  return { name: widened ? treeName(node) : name, node, widened };
}
