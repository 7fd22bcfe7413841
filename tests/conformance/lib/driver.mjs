// The real driver, found where tests/e2e installed it.
import {createRequire} from 'node:module';
import path from 'node:path';
import {fileURLToPath} from 'node:url';

const here = path.dirname(fileURLToPath(import.meta.url));
const require = createRequire(path.join(here, '../../e2e/'));

export const mongodb = require('mongodb');
export const bson = createRequire(require.resolve('mongodb'))('bson');
export const {EJSON} = bson;
export const yaml = require('js-yaml');
