// Where the public test suites lie: $MULTIFORA_SHARED_DIR, or ../shared beside the repository. They are
// read in place; a run without them says SKIP and ends with the code that ctest takes for "skipped".
import {existsSync} from 'node:fs';
import path from 'node:path';
import {fileURLToPath} from 'node:url';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../..');
export const kSkipCode = 77;

export function sharedFolder(name) {
  const base = process.env.MULTIFORA_SHARED_DIR ?? path.join(root, '../shared');
  const folder = path.join(base, name);
  if (existsSync(folder)) return folder;
  console.log(`SKIP: ${folder} does not exist; set MULTIFORA_SHARED_DIR to the folder that holds ${name}`);
  process.exit(kSkipCode);
}
