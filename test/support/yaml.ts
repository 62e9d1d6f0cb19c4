/**
 * Reads the part of YAML that deploy/compose.yaml uses: maps, lists and scalars by indentation, JSON in one line,
 * anchors on maps. Anything else, a wrong indentation included, throws; that is what the tests want of it.
 */
type Yaml = string | number | boolean | Yaml[] | { [key: string]: Yaml };

export function readYaml(text: string): Yaml {
  const lines = text.split('\n').flatMap((line, index) => {
    if (line.includes('\t')) throw new Error(`line ${index + 1}: a tab`);
    const content = line.replace(/(^|\s)#.*$/, '').trimEnd();
    return content.trim() === '' ? [] : [{ indent: content.search(/\S/), text: content.trim(), number: index + 1 }];
  });
  const anchors = new Map<string, Yaml>();
  let next = 0;

  function block(indent: number): Yaml {
    const isList = lines[next]?.text.startsWith('- ');
    const list: Yaml[] = [];
    const map: Record<string, Yaml> = {};
    for (let line = lines[next]; line && line.indent >= indent; line = lines[next]) {
      if (line.indent > indent) throw new Error(`line ${line.number}: wrong indentation`);
      next++;
      if (isList) {
        if (!line.text.startsWith('- ')) throw new Error(`line ${line.number}: no list item`);
        list.push(scalar(line.text.slice(2)));
        continue;
      }
      const match = /^([\w.-]+):(?: (.+))?$/.exec(line.text);
      if (!match?.[1]) throw new Error(`line ${line.number}: no key`);
      if (match[1] in map) throw new Error(`line ${line.number}: ${match[1]} again`);
      map[match[1]] = value(match[2] ?? '', indent);
    }
    return isList ? list : map;
  }

  function value(given: string, indent: number): Yaml {
    if (given.startsWith('*')) {
      const found = anchors.get(given.slice(1));
      if (found === undefined) throw new Error(`no anchor ${given}`);
      return found;
    }
    if (given !== '' && !given.startsWith('&')) return scalar(given);
    const below = lines[next];
    const nested = below && below.indent > indent ? block(below.indent) : '';
    if (given !== '') anchors.set(given.slice(1), nested);
    return nested;
  }

  return block(0);
}

function scalar(text: string): Yaml {
  if (/^["[{]/.test(text)) return JSON.parse(text) as Yaml;
  if (text === 'true' || text === 'false') return text === 'true';
  return /^\d+$/.test(text) ? Number(text) : text;
}
