// Operations of the unified test format on the driver's objects: kOperations[name](target, arguments, entities).
// What the driver has no helper for (mapReduce, collMod) is sent as the command that the helper would send.
import {Readable} from 'node:stream';
import {finished} from 'node:stream/promises';

import {mongodb} from './driver.mjs';
import {driverOptions} from './entities.mjs';
import {plainResult, writeResult} from './results.mjs';
import {Unsupported} from './unsupported.mjs';

const {ReadPreference} = mongodb;

export {Unsupported};

// The operation's arguments but for `names`, with the session that "session" names.
function rest(args, entities, ...names) {
  const options = driverOptions(args);
  for (const name of names) delete options[name];
  if (typeof options.session === 'string') options.session = entities.get(options.session);
  return options;
}

const kReturn = {Before: 'before', After: 'after'};
function findAndOptions(args, entities, ...names) {
  const options = rest(args, entities, 'filter', ...names);
  if (options.returnDocument) options.returnDocument = kReturn[options.returnDocument];
  return options;
}

function findOptions(args, entities) {
  const options = rest(args, entities, 'filter');
  if (options.cursorType === 'tailable' || options.cursorType === 'tailableAwait') options.tailable = true;
  if (options.cursorType === 'tailableAwait') options.awaitData = true;
  delete options.cursorType;
  return options;
}

// {"insertOne": {...}} of the specification is {name: 'insertOne', ...} of the driver's client.bulkWrite.
const clientModels = (models) => models.map((model) => {
  const [[name, body]] = Object.entries(model);
  return {...body, name};
});

async function command(target, args, entities) {
  return target.command(args.command, rest(args, entities, 'command', 'commandName'));
}

async function readStream(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks);
}

async function upload(bucket, {filename, source, ...args}, entities) {
  const options = rest(args, entities, 'disableMD5', 'contentType');
  if (args.contentType !== undefined) throw new Unsupported('contentType of an upload');
  const stream = bucket.openUploadStream(filename, options);
  Readable.from([Buffer.from(source.$$hexBytes, 'hex')].filter((bytes) => bytes.length > 0)).pipe(stream);
  await finished(stream);
  return stream.id;
}

async function gridFileByName(bucket, filename) {
  const files = await bucket.find({filename}).toArray();
  if (files.length === 0) throw new mongodb.MongoRuntimeError(`FileNotFound: no file with the name ${filename}`);
  return files;
}

async function tracked(cursor, entities) {
  entities.cursors.push(cursor);
  return cursor;
}

async function openCursor(cursor, entities) {
  await tracked(cursor, entities);
  // Opened at once, so that an error of the first command is the operation's.
  const first = await cursor.tryNext();
  const next = cursor.tryNext.bind(cursor);
  let pending = first === null ? [] : [first];
  cursor.tryNext = async () => (pending.length > 0 ? pending.shift() : next());
  return cursor;
}

async function changeStream(target, {pipeline = [], ...args}, entities) {
  const stream = target.watch(pipeline, rest(args, entities));
  await tracked(stream, entities);
  // The server must have opened it before the next operation writes.
  await stream.cursor.cursorInit();
  return stream;
}

async function untilDocument(cursor) {
  for (;;) {
    const document = await (cursor.next && cursor.constructor.name === 'ChangeStream' ? cursor.next() : cursor.tryNext());
    if (document !== null) return document;
  }
}

async function runCommandCursor(db, args, entities) {
  const options = rest(args, entities, 'command', 'commandName', 'batchSize', 'maxTimeMS', 'comment', 'cursorType');
  if (options.timeoutMode !== undefined) throw new Unsupported('timeoutMode');
  const cursor = db.runCursorCommand(args.command, options);
  if (args.batchSize !== undefined) cursor.setBatchSize(args.batchSize);
  if (args.maxTimeMS !== undefined) cursor.setMaxTimeMS(args.maxTimeMS);
  if (args.comment !== undefined) cursor.setComment(args.comment);
  return cursor;
}

const databaseOf = (collection) => collection.client.db(collection.dbName);
const unsupported = (what) => () => { throw new Unsupported(`${what} is not in this driver`); };

export const kOperations = {
  // Clients.
  listDatabases: async (client, args, e) => (await client.db('admin').admin().listDatabases(rest(args, e))).databases,
  listDatabaseNames: async (client, args, e) =>
    (await client.db('admin').admin().listDatabases({...rest(args, e), nameOnly: true})).databases.map((d) => d.name),
  listDatabaseObjects: unsupported('listDatabaseObjects'),
  clientBulkWrite: async (client, args, e) =>
    plainResult(await client.bulkWrite(clientModels(args.models), rest(args, e, 'models'))),
  appendMetadata: (client, {driverInfoOptions}) => client.appendMetadata(driverInfoOptions),

  // Databases.
  runCommand: command,
  runCursorCommand: async (db, args, e) => (await tracked(await runCommandCursor(db, args, e), e)).toArray(),
  createCommandCursor: async (db, args, e) => openCursor(await runCommandCursor(db, args, e), e),
  createCollection: (db, args, e) => db.createCollection(args.collection, rest(args, e, 'collection')),
  dropCollection: (db, args, e) => db.dropCollection(args.collection, rest(args, e, 'collection')),
  modifyCollection: (db, {collection, ...args}, e) => {
    const {session, ...options} = rest(args, e);
    return db.command({collMod: collection, ...options}, {session});
  },
  listCollections: (db, args, e) => db.listCollections(args.filter ?? {}, rest(args, e, 'filter')).toArray(),
  listCollectionNames: async (db, args, e) =>
    (await db.listCollections(args.filter ?? {}, {...rest(args, e, 'filter'), nameOnly: true}).toArray()).map((c) => c.name),
  listCollectionObjects: unsupported('listCollectionObjects'),
  dropDatabase: (client, args, e) => client.db(args.database).dropDatabase(rest(args, e, 'database')),

  // Collections: reads.
  find: (c, args, e) => c.find(args.filter, findOptions(args, e)).toArray(),
  createFindCursor: (c, args, e) => openCursor(c.find(args.filter, findOptions(args, e)), e),
  findOne: (c, args, e) => c.findOne(args.filter, findOptions(args, e)),
  aggregate: (c, args, e) => c.aggregate(args.pipeline, rest(args, e, 'pipeline')).toArray(),
  count: (c, args, e) => c.count(args.filter, rest(args, e, 'filter')),
  countDocuments: (c, args, e) => c.countDocuments(args.filter, rest(args, e, 'filter')),
  estimatedDocumentCount: (c, args, e) => c.estimatedDocumentCount(rest(args, e)),
  distinct: (c, args, e) => c.distinct(args.fieldName, args.filter, rest(args, e, 'fieldName', 'filter')),
  mapReduce: async (c, {map, reduce, out, ...args}, e) => {
    const {session, ...options} = rest(args, e);
    return (await databaseOf(c).command({mapReduce: c.collectionName, map, reduce, out, ...options}, {session})).results;
  },

  // Collections: writes.
  insertOne: async (c, args, e) => writeResult(await c.insertOne(args.document, rest(args, e, 'document'))),
  insertMany: async (c, args, e) => writeResult(await c.insertMany(args.documents, rest(args, e, 'documents'))),
  updateOne: async (c, args, e) => writeResult(await c.updateOne(args.filter, args.update, rest(args, e, 'filter', 'update'))),
  updateMany: async (c, args, e) => writeResult(await c.updateMany(args.filter, args.update, rest(args, e, 'filter', 'update'))),
  replaceOne: async (c, args, e) =>
    writeResult(await c.replaceOne(args.filter, args.replacement, rest(args, e, 'filter', 'replacement'))),
  deleteOne: async (c, args, e) => writeResult(await c.deleteOne(args.filter, rest(args, e, 'filter'))),
  deleteMany: async (c, args, e) => writeResult(await c.deleteMany(args.filter, rest(args, e, 'filter'))),
  bulkWrite: async (c, args, e) => plainResult(await c.bulkWrite(args.requests, rest(args, e, 'requests'))),
  findOneAndUpdate: (c, args, e) => c.findOneAndUpdate(args.filter, args.update, findAndOptions(args, e, 'update')),
  findOneAndReplace: (c, args, e) =>
    c.findOneAndReplace(args.filter, args.replacement, findAndOptions(args, e, 'replacement')),
  findOneAndDelete: (c, args, e) => c.findOneAndDelete(args.filter, findAndOptions(args, e)),

  // Collections: indexes.
  createIndex: (c, args, e) => c.createIndex(args.keys, rest(args, e, 'keys')),
  dropIndex: (c, args, e) => c.dropIndex(args.name, rest(args, e, 'name')),
  dropIndexes: (c, args, e) => c.dropIndexes(rest(args, e)),
  listIndexes: (c, args, e) => c.listIndexes(rest(args, e)).toArray(),
  listIndexNames: async (c, args, e) => (await c.listIndexes(rest(args, e)).toArray()).map((index) => index.name),
  createSearchIndex: (c, args) => c.createSearchIndex(args.model),
  createSearchIndexes: (c, args) => c.createSearchIndexes(args.models),
  dropSearchIndex: (c, args) => c.dropSearchIndex(args.name),
  updateSearchIndex: (c, args) => c.updateSearchIndex(args.name, args.definition),
  listSearchIndexes: (c, args) => c.listSearchIndexes(args.name, args.aggregationOptions).toArray(),

  // Cursors and change streams.
  createChangeStream: changeStream,
  iterateUntilDocumentOrError: untilDocument,
  iterateOnce: (cursor) => cursor.tryNext(),
  close: (target) => target.close(),

  // Sessions.
  startTransaction: (session, args) => session.startTransaction(driverOptions(args)),
  commitTransaction: (session, args) => session.commitTransaction(args),
  abortTransaction: (session, args) => session.abortTransaction(args),
  endSession: (session) => session.endSession(),
  getSnapshotTime: (session) => session.snapshotTime ?? unsupported('getSnapshotTime')(),
  withTransaction: (session, {callback, ...options}, e, run) => session.withTransaction(async () => {
    for (const operation of callback) await run(operation, {rethrow: true});
  }, driverOptions(options)),

  // GridFS.
  upload,
  download: (bucket, {id}) => readStream(bucket.openDownloadStream(id)),
  downloadByName: (bucket, {filename, revision}) =>
    readStream(bucket.openDownloadStreamByName(filename, revision === undefined ? {} : {revision})),
  delete: (bucket, {id}) => bucket.delete(id),
  deleteByName: async (bucket, {filename}) => {
    for (const file of await gridFileByName(bucket, filename)) await bucket.delete(file._id);
  },
  renameByName: async (bucket, {filename, newFilename}) => {
    for (const file of await gridFileByName(bucket, filename)) await bucket.rename(file._id, newFilename);
  },
  rename: async (target, args, e) =>
    target instanceof mongodb.GridFSBucket ? target.rename(args.id, args.newFilename)
                                           : void await target.rename(args.to, rest(args, e, 'to')),
};

// Names that mean another operation on another kind of object.
export function operationFor(name, target) {
  if (name === 'runCommand' && target instanceof mongodb.Db)
    return (db, args, e) => command(db, args.session || args.readPreference ? args : {...args, readPreference: {mode: 'primary'}}, e);
  return kOperations[name];
}
