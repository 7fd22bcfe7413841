// The examples of the operators' definitions: every pipeline, filter and update in scope is accepted, and what
// is out of scope is refused with an error of MongoDB's.
//
//   node examples.mjs [--definition REGEX]
//
// Ends with 77 where the definitions are absent.
import {readFileSync, readdirSync} from 'node:fs';
import path from 'node:path';
import {parseArgs} from 'node:util';

import {Server} from '../e2e/support/server.mjs';
import {bson, mongodb, yaml} from './lib/driver.mjs';
import {sharedFolder} from './lib/shared.mjs';

const {values: options} = parseArgs({options: {definition: {type: 'string', default: ''}}});

const kFolders = ['query', 'update', 'expression', 'accumulator', 'stage', 'search'];

// Operators that this server does not offer, by reason. An example that holds one is refused.
const kOutOfScope = {
  'Atlas Search': ['$search', '$searchMeta', '$vectorSearch', '$rankFusion', '$scoreFusion', '$score', '$rerank',
                   '$listSearchIndexes'],
  'sharding': ['$shardedDataDistribution', '$listSampledQueries'],
  'server-side JavaScript': ['$where', '$function', '$accumulator'],
  'geo indexes': ['$geoNear', '$near', '$nearSphere', '$geoIntersects', '$geoWithin'],
  'text indexes': ['$text'],
};
// Examples that hold no operator by which to know them.
const kOutOfScopeTitles = {
  'stage/$collStats: queryExecStats Document': 'counters of collection scans',
  'stage/$out: Output to a Time Series Collection': 'time series',
};

const scalar = (tag, make) => yaml.defineScalarTag(`!${tag}`, {resolve: (text) => make(String(text))});
const schema = yaml.CORE_SCHEMA.withTags([
  scalar('bson_binary', (text) => new bson.Binary(Buffer.from(text, 'base64'))),
  scalar('bson_decimal128', (text) => bson.Decimal128.fromString(text)),
  scalar('bson_int64', (text) => bson.Long.fromString(text)),
  scalar('bson_objectId', (text) => new bson.ObjectId(text)),
  scalar('bson_utcdatetime', (text) => new Date(/^-?\d+$/.test(text) ? Number(text) : text)),
  scalar('bson_uuid', (text) => new bson.UUID(text)),
  scalar('bson_regex', (text) => new bson.BSONRegExp(text)),
  yaml.defineSequenceTag('!bson_regex', {
    create: () => [], addItem: (list, item) => { list.push(item); },
    finalize: ([pattern, flags]) => new bson.BSONRegExp(pattern, flags), identify: () => false}),
]);

function namesIn(value, found = new Set()) {
  if (Array.isArray(value)) {
    for (const one of value) namesIn(one, found);
  } else if (value !== null && typeof value === 'object' && (value.constructor === Object || !value.constructor)) {
    for (const [name, inner] of Object.entries(value)) {
      if (name.startsWith('$')) found.add(name);
      namesIn(inner, found);
    }
  }
  return found;
}

function outOfScope(example) {
  const names = namesIn(example);
  for (const [reason, operators] of Object.entries(kOutOfScope))
    if (operators.some((name) => names.has(name))) return reason;
  return null;
}

async function run(client, {pipeline, filter, update, arrayFilters}) {
  const db = client.db('examples');
  const things = db.collection('things');
  if (update !== undefined) return things.updateOne(filter ?? {}, update, arrayFilters ? {arrayFilters} : {});
  if (pipeline === undefined) return things.find(filter).toArray();
  const [first] = Object.keys(pipeline[0] ?? {$match: {}});
  if (first === '$currentOp' || first === '$listLocalSessions' || first === '$shardedDataDistribution')
    return client.db('admin').aggregate(pipeline).toArray();
  if (first === '$listSessions') return client.db('config').collection('system.sessions').aggregate(pipeline).toArray();
  // The example shows what follows a $changeStream.
  if (first === '$changeStreamSplitLargeEvent') return run(client, {pipeline: [{$changeStream: {}}, ...pipeline]});
  if (first === '$documents') return db.aggregate(pipeline).toArray();
  if (first !== '$changeStream') return things.aggregate(pipeline).toArray();
  const stream = things.aggregate(pipeline, {maxTimeMS: 5000});
  await stream.tryNext();
  return stream.close();
}

const folder = path.join(sharedFolder('mql-specifications'), 'definitions');
const server = await Server.start();
const client = new mongodb.MongoClient(server.uri);
await client.db('examples').createCollection('things');
const counts = {accepted: 0, 'out of scope': 0};
const wrong = [];
for (const kind of kFolders)
  for (const file of readdirSync(path.join(folder, kind)).sort()) {
    if (!new RegExp(options.definition).test(`${kind}/${file}`)) continue;
    const definition = yaml.load(readFileSync(path.join(folder, kind, file), 'utf8'), {schema});
    for (const example of definition.tests ?? []) {
      const title = `${kind}/${definition.name}: ${example.name}`;
      const reason = outOfScope(example) ?? kOutOfScopeTitles[title] ?? (kind === 'search' ? 'Atlas Search' : null);
      try {
        await run(client, example);
        if (reason === null) counts.accepted += 1;
        else wrong.push(`${title}\n    accepted, though ${reason} is not offered`);
      } catch (error) {
        if (reason !== null && typeof error.code === 'number' && error.codeName !== 'InternalError') counts['out of scope'] += 1;
        else wrong.push(`${title}\n    ${error.code ?? ''} ${error.message}`);
      }
    }
  }
await client.close();
const code = await server.stop();
for (const one of wrong) console.log(one);
console.log(`\n${counts.accepted} examples accepted, ${counts['out of scope']} refused as out of scope, ${wrong.length} wrong`);
process.exit(wrong.length === 0 && code === 0 && counts.accepted > 0 ? 0 : 1);
