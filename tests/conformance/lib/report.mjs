// Tables and floors: the fewest passes that each group had; fewer fail the run, more ask to raise the floor.
import {existsSync, readFileSync, writeFileSync} from 'node:fs';
import path from 'node:path';
import {fileURLToPath} from 'node:url';

const kFile = path.join(path.dirname(fileURLToPath(import.meta.url)), '../floor.json');

export function table(groups) {
  const names = Object.keys(groups).sort();
  const width = Math.max(...names.map((name) => name.length), 6);
  const line = (name, ...cells) => `${name.padEnd(width)}${cells.map((cell) => String(cell).padStart(9)).join('')}`;
  const sum = (key) => names.reduce((total, name) => total + (groups[name][key] ?? 0), 0);
  const columns = ['passed', 'failed', 'skipped'].filter((key) => key !== 'skipped' || names.some((n) => groups[n].skipped));
  return [line('', ...columns), ...names.map((name) => line(name, ...columns.map((key) => groups[name][key] ?? 0))),
          line('all', ...columns.map(sum))].join('\n');
}

const read = () => (existsSync(kFile) ? JSON.parse(readFileSync(kFile, 'utf8')) : {});

export function raiseFloor(suite, groups) {
  const floors = read();
  floors[suite] = Object.fromEntries(Object.keys(groups).sort().map((name) => [name, groups[name].passed]));
  writeFileSync(kFile, `${JSON.stringify(floors, null, 2)}\n`);
}

// True where no group has sunk below its floor; a group that did not run at all has sunk.
export function aboveFloor(suite, groups) {
  const floors = read()[suite] ?? {};
  let good = true;
  for (const [name, floor] of Object.entries(floors)) {
    const passed = groups[name]?.passed ?? 0;
    if (passed < floor) {
      good = false;
      console.log(`BELOW THE FLOOR: ${name} passed ${passed}, the floor is ${floor}`);
    } else if (passed > floor) {
      console.log(`above the floor: ${name} passed ${passed}, the floor is ${floor}; raise it with --raise-floor`);
    }
  }
  for (const name of Object.keys(groups))
    if (!(name in floors) && groups[name].passed > 0) console.log(`no floor yet: ${name}; record it with --raise-floor`);
  return good;
}
