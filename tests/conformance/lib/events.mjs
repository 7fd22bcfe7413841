// Events and log messages of a client, recorded as they happen, and their comparison with expectEvents.
import {bson} from './driver.mjs';
import {Mismatch, show} from './match.mjs';

const kSensitive = new Set(['authenticate', 'saslstart', 'saslcontinue', 'getnonce', 'createuser', 'updateuser',
                            'copydbgetnonce', 'copydbsaslstart', 'copydb']);
const kHellos = new Set(['hello', 'ismaster']);

const kCommand = {commandStarted: 'commandStartedEvent', commandSucceeded: 'commandSucceededEvent',
                  commandFailed: 'commandFailedEvent'};
const kPool = {connectionPoolCreated: 'poolCreatedEvent', connectionPoolReady: 'poolReadyEvent',
               connectionPoolCleared: 'poolClearedEvent', connectionPoolClosed: 'poolClosedEvent',
               connectionCreated: 'connectionCreatedEvent', connectionReady: 'connectionReadyEvent',
               connectionClosed: 'connectionClosedEvent', connectionCheckOutStarted: 'connectionCheckOutStartedEvent',
               connectionCheckOutFailed: 'connectionCheckOutFailedEvent', connectionCheckedOut: 'connectionCheckedOutEvent',
               connectionCheckedIn: 'connectionCheckedInEvent'};
const kTopology = {serverDescriptionChanged: 'serverDescriptionChangedEvent',
                   topologyDescriptionChanged: 'topologyDescriptionChangedEvent', topologyOpening: 'topologyOpeningEvent',
                   topologyClosed: 'topologyClosedEvent', serverHeartbeatStarted: 'serverHeartbeatStartedEvent',
                   serverHeartbeatSucceeded: 'serverHeartbeatSucceededEvent',
                   serverHeartbeatFailed: 'serverHeartbeatFailedEvent'};

// A command or reply as it goes over the wire: plain documents and arrays, no Maps, no undefined.
function plain(document) {
  return bson.deserialize(bson.serialize(document, {ignoreUndefined: true}), {promoteBuffers: false});
}

export class Events {
  constructor({ignoreCommandMonitoringEvents: ignored = [], observeSensitiveCommands = false}) {
    this.recorded = [];  // {type: 'command' | 'cmap' | 'sdam', name, event}
    this.ignored = new Set(ignored.map((name) => name.toLowerCase()));
    this.sensitive = observeSensitiveCommands;
    this.checkedOut = 0;
  }

  listen(client) {
    for (const [event, name] of Object.entries(kCommand)) client.on(event, (e) => this.command(name, e));
    for (const [event, name] of Object.entries(kPool)) client.on(event, (e) => this.pool(name, e));
    for (const [event, name] of Object.entries(kTopology))
      client.on(event, (e) => this.recorded.push({type: 'sdam', name, event: e}));
  }

  command(name, event) {
    const command = event.commandName.toLowerCase();
    if (this.ignored.has(command)) return;
    const body = event.command ?? event.reply;
    const redacted = kSensitive.has(command) ||
                     (kHellos.has(command) && (!body || Object.keys(body).length === 0 || body.speculativeAuthenticate));
    if (redacted && !this.sensitive) return;
    const copy = {commandName: event.commandName, databaseName: event.databaseName, requestId: event.requestId,
                  serverConnectionId: event.serverConnectionId, failure: event.failure};
    if (event.command) copy.command = plain(event.command);
    if (event.reply) copy.reply = plain(event.reply);
    this.recorded.push({type: 'command', name, event: copy});
  }

  pool(name, event) {
    if (name === 'connectionCheckedOutEvent') ++this.checkedOut;
    if (name === 'connectionCheckedInEvent') --this.checkedOut;
    this.recorded.push({type: 'cmap', name, event});
  }

  started() { return this.recorded.filter((e) => e.name === 'commandStartedEvent').map((e) => e.event); }

  // How many recorded events match {eventName: {...}}.
  count(expected, matcher) {
    return this.recorded.filter((recorded) => {
      try {
        matchEvent(recorded, expected, matcher);
        return true;
      } catch (error) {
        if (error instanceof Mismatch) return false;
        throw error;
      }
    }).length;
  }
}

// The Node driver ends transactions with wtimeout: 10000 where it has a write concern without one; the
// specification wants that for a second commit only, and says so where it does.
function withoutDriversTimeout(command, wanted) {
  const ends = 'commitTransaction' in command || 'abortTransaction' in command;
  if (!ends || command.writeConcern?.wtimeout !== 10000) return command;
  if (!wanted.writeConcern || '$$exists' in wanted.writeConcern || 'wtimeout' in wanted.writeConcern) return command;
  const {wtimeout: _, ...writeConcern} = command.writeConcern;
  return {...command, writeConcern};
}

export function matchEvent(recorded, expected, matcher, at = 'event') {
  const [[name, wanted]] = Object.entries(expected);
  if (recorded.name !== name)
    throw new Mismatch(`${at}: expected ${name} ${show(wanted)}, got ${recorded.name} ${recorded.event.commandName ?? ''} ` +
                       `${recorded.event.failure ?? ''}`);
  const {event} = recorded;
  for (const part of ['commandName', 'databaseName', 'awaited', 'reason', 'interruptInUseConnections'])
    if (wanted[part] !== undefined && event[part] !== wanted[part])
      throw new Mismatch(`${at}.${part}: expected ${wanted[part]}, got ${event[part]}`);
  for (const part of ['command', 'reply'])
    if (wanted[part] !== undefined) {
      const actual = part === 'command' ? withoutDriversTimeout(event[part], wanted[part]) : event[part];
      matcher.match(actual, wanted[part], {root: true, at: `${at}.${part}`});
    }
  for (const [part, field] of [['hasServerConnectionId', 'serverConnectionId'], ['hasServiceId', 'serviceId']])
    if (wanted[part] !== undefined && (event[field] != null) !== wanted[part])
      throw new Mismatch(`${at}.${part}: expected ${wanted[part]}`);
  for (const part of ['previousDescription', 'newDescription'])
    if (wanted[part]?.type !== undefined && event[part].type !== wanted[part].type)
      throw new Mismatch(`${at}.${part}: expected type ${wanted[part].type}, got ${event[part].type}`);
}

export function checkEvents(expectations, entities, matcher) {
  for (const {client, events, eventType = 'command', ignoreExtraEvents = false} of expectations) {
    const recorded = entities.events(client).recorded.filter((e) => e.type === eventType && entities.observes(client, e.name));
    const names = () => recorded.map((e) => `${e.name}(${e.event.commandName ?? ''})`).join(' ');
    events.forEach((expected, i) => {
      if (recorded[i] === undefined)
        throw new Mismatch(`event ${i}: expected ${show(expected)}, got nothing; all were: ${names()}`);
      matchEvent(recorded[i], expected, matcher, `event ${i}`);
    });
    if (!ignoreExtraEvents && recorded.length > events.length)
      throw new Mismatch(`expected ${events.length} events, got ${recorded.length}: ${names()}`);
  }
}

export function checkLogMessages(expectations, entities, matcher) {
  for (const {client, messages, ignoreMessages = [], ignoreExtraMessages = false} of expectations) {
    const matches = (actual, wanted) => {
      matcher.match(actual.level, wanted.level, {at: 'level'});
      matcher.match(actual.component, wanted.component, {at: 'component'});
      if (wanted.failureIsRedacted !== undefined) matcher.match(actual.data.failure !== undefined, true, {at: 'failure'});
      matcher.match(actual.data, wanted.data, {root: true, at: 'data'});
    };
    const ignored = (actual) => ignoreMessages.some((wanted) => {
      try {
        matches(actual, wanted);
        return true;
      } catch {
        return false;
      }
    });
    const actual = entities.logMessages(client).filter((message) => !ignored(message));
    messages.forEach((wanted, i) => {
      if (actual[i] === undefined) throw new Mismatch(`log message ${i}: expected ${show(wanted)}, got nothing`);
      matches(actual[i], wanted);
    });
    if (!ignoreExtraMessages && actual.length > messages.length)
      throw new Mismatch(`expected ${messages.length} log messages, got ${actual.length}`);
  }
}
