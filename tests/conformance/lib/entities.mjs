// The objects a test names: clients, databases, collections, sessions, buckets, cursors, results.
import {mongodb} from './driver.mjs';
import {Events} from './events.mjs';

const {MongoClient, GridFSBucket, ReadConcern, ReadPreference, WriteConcern} = mongodb;

// Options shared by collections, databases, sessions and operations, as the driver's objects.
export function driverOptions(options = {}) {
  const result = {...options};
  if (options.readConcern) result.readConcern = ReadConcern.fromOptions({readConcern: options.readConcern});
  if (options.writeConcern) result.writeConcern = WriteConcern.fromOptions({writeConcern: options.writeConcern});
  if (options.readPreference) result.readPreference = ReadPreference.fromOptions({readPreference: options.readPreference});
  return result;
}

function sessionOptions({defaultTransactionOptions, ...rest} = {}) {
  return defaultTransactionOptions ? {...rest, defaultTransactionOptions: driverOptions(defaultTransactionOptions)} : rest;
}

const kLogLevels = ['off', 'emergency', 'alert', 'critical', 'error', 'warn', 'notice', 'info', 'debug', 'trace'];

export class Entities {
  constructor(server) {
    this.server = server;    // {port, setName}
    this.values = new Map();
    this.clients = new Map();  // id -> {client, events, observed, log}
    this.lsids = new Map();
    this.threads = new Map();
    this.sessions = [];
    this.cursors = [];
  }

  has(id) { return this.values.has(id); }
  get(id) {
    if (!this.values.has(id)) throw new Error(`the test names ${id}, which it did not create`);
    return this.values.get(id);
  }
  set(id, value) { this.values.set(id, value); }
  events(id) { return this.clients.get(id).events; }
  observes(id, eventName) { return this.clients.get(id).observed.has(eventName); }
  logMessages(id) { return this.clients.get(id).log; }
  lsid(id) { return this.lsids.get(id); }

  async create(descriptions = []) {
    for (const description of descriptions) {
      const [[kind, options]] = Object.entries(description);
      await this[`create_${kind}`](options);
    }
  }

  async create_client(options) {
    const {id, uriOptions = {}, observeEvents = [], observeLogMessages, serverApi} = options;
    const query = new URLSearchParams({replicaSet: this.server.setName, ...uriOptions});
    const log = [];
    // Connecting must not take a connection out of the pool and put it back: tests count such events.
    const settings = {monitorCommands: true, __skipPingOnConnect: true, ...(serverApi ? {serverApi} : {})};
    if (observeLogMessages) Object.assign(settings, logSettings(observeLogMessages, log));
    const client = new MongoClient(`mongodb://127.0.0.1:${this.server.port}/?${query}`, settings);
    const events = new Events(options);
    events.listen(client);
    client.on('error', () => {});
    this.clients.set(id, {client, events, observed: new Set(observeEvents), log});
    this.set(id, client);
    await client.connect();
  }

  create_database({id, client, databaseName, databaseOptions}) {
    this.set(id, this.get(client).db(databaseName, driverOptions(databaseOptions)));
  }

  create_collection({id, database, collectionName, collectionOptions}) {
    this.set(id, this.get(database).collection(collectionName, driverOptions(collectionOptions)));
  }

  create_session({id, client, sessionOptions: options}) {
    const {snapshotTime, ...others} = options ?? {};
    const session = this.get(client).startSession(sessionOptions(others));
    // The driver has no such option yet, but the state that it would set.
    if (snapshotTime !== undefined) session.snapshotTime = this.get(snapshotTime);
    this.sessions.push(session);
    this.lsids.set(id, session.id);
    this.set(id, session);
  }

  create_bucket({id, database, bucketOptions}) {
    this.set(id, new GridFSBucket(this.get(database), driverOptions(bucketOptions)));
  }

  create_thread({id}) { this.threads.set(id, Promise.resolve()); }

  // Sessions first: closing a client ends them with a command.
  async close(force = false) {
    for (const cursor of this.cursors) await cursor.close().catch(() => {});
    for (const session of this.sessions) await session.endSession({force: true}).catch(() => {});
    await Promise.all([...this.clients.values()].map(({client}) => client.close(force).catch(() => {})));
  }
}

function logSettings(components, log) {
  const severities = {default: 'off'};
  for (const [component, level] of Object.entries(components))
    severities[component] = kLogLevels.includes(level) ? level : 'debug';
  return {
    mongodbLogComponentSeverities: severities,
    mongodbLogMaxDocumentLength: 10000,
    mongodbLogPath: {write: ({t, s, c, ...data}) => void log.push({level: s, component: c, data})},
  };
}
