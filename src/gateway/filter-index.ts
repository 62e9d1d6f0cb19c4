import { type Attribute, type Filter, matchesType } from '../protocol/filter.js';
import type { LogEntry, LogEvent } from '../redis/log-entry.js';
import { type FilterGroup, matchesWhere } from './filter-group.js';

interface Member {
  readonly group: FilterGroup;
  readonly filter: Filter;
}

/** Everybody who subscribed with one pattern. */
interface PatternNode {
  readonly pattern: string;
  readonly plain: Set<Member>;
  /** Members with a `where`, by one attribute of it and the value it must have. */
  readonly byValue: Map<Attribute, Map<string, Set<Member>>>;
  size: number;
}

/** The attribute that tells most events apart comes first: the others are compared only where it is equal. */
const selective: readonly Attribute[] = ['task', 'session', 'run', 'lock', 'agent', 'limit', 'queue', 'kind', 'tenant'];

const typesMax = 4096;

/**
 * Which groups want an event, without asking each: by type (remembered), then by value. A thousand agents that each
 * watch their own events cost one look-up an event, not a thousand comparisons.
 */
export class FilterIndex {
  readonly #nodes = new Map<string, PatternNode>();
  readonly #byType = new Map<string, readonly PatternNode[]>();

  add(group: FilterGroup): void {
    for (const filter of group.filters) for (const pattern of filter.types) this.#add(pattern, { group, filter });
  }

  remove(group: FilterGroup): void {
    for (const filter of group.filters) for (const pattern of new Set(filter.types)) this.#remove(pattern, group);
  }

  mayWant(entry: LogEntry): boolean {
    for (const type of entry.types) if (this.#nodesOf(type).length > 0) return true;
    return false;
  }

  /** Calls `found` for every group that wants the event; more than once if several of its filters do. */
  match(event: LogEvent, found: (group: FilterGroup, event: LogEvent) => void): void {
    for (const { plain, byValue } of this.#nodesOf(event.type)) {
      for (const { group } of plain) found(group, event);
      for (const [attribute, values] of byValue) {
        const value = event.attribute(attribute);
        const members = value === undefined ? undefined : values.get(value);
        if (members) for (const { group, filter } of members) if (matchesWhere(filter, event)) found(group, event);
      }
    }
  }

  #add(pattern: string, member: Member): void {
    let node = this.#nodes.get(pattern);
    if (!node) {
      node = { pattern, plain: new Set(), byValue: new Map(), size: 0 };
      this.#nodes.set(pattern, node);
      this.#byType.clear();
    }
    node.size++;
    bucket(node, member.filter).add(member);
  }

  #remove(pattern: string, group: FilterGroup): void {
    const node = this.#nodes.get(pattern);
    if (!node) return;
    for (const filter of group.filters) {
      const members = bucket(node, filter);
      for (const member of members) {
        if (member.group !== group) continue;
        members.delete(member);
        node.size--;
      }
      tidy(node, filter);
    }
    if (node.size > 0) return;
    this.#nodes.delete(pattern);
    this.#byType.clear();
  }

  #nodesOf(type: string): readonly PatternNode[] {
    let nodes = this.#byType.get(type);
    if (!nodes) {
      if (this.#byType.size >= typesMax) this.#byType.clear();
      nodes = [...this.#nodes.values()].filter(({ pattern }) => matchesType(pattern, type));
      this.#byType.set(type, nodes);
    }
    return nodes;
  }
}

const attributeOf = ({ where }: Filter): Attribute | undefined => selective.find((name) => where[name] !== undefined);

function bucket(node: PatternNode, filter: Filter): Set<Member> {
  const attribute = attributeOf(filter);
  if (!attribute) return node.plain;
  const values = node.byValue.get(attribute) ?? new Map<string, Set<Member>>();
  node.byValue.set(attribute, values);
  const value = filter.where[attribute]!;
  const members = values.get(value) ?? new Set<Member>();
  values.set(value, members);
  return members;
}

function tidy(node: PatternNode, filter: Filter): void {
  const attribute = attributeOf(filter);
  if (!attribute) return;
  const values = node.byValue.get(attribute);
  const value = filter.where[attribute]!;
  if (values?.get(value)?.size === 0) values.delete(value);
  if (values?.size === 0) node.byValue.delete(attribute);
}
