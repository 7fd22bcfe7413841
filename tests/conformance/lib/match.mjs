// "Evaluating matches" of the unified test format: does an actual value match an expected one?
// A mismatch is thrown as a Mismatch that says where. Numbers compare by value whatever their BSON type;
// documents at the root may hold more fields than expected, nested ones may not.
import {bson, EJSON, mongodb} from './driver.mjs';

export class Mismatch extends Error {}

export function show(value) {
  let text;
  try {
    text = value === undefined ? 'nothing' : EJSON.stringify(value, {relaxed: true});
  } catch {
    text = String(value);
  }
  return text.length > 700 ? `${text.slice(0, 700)}...` : text;
}

const isDocument = (v) => v !== null && typeof v === 'object' && !Array.isArray(v) && v._bsontype === undefined &&
                          !(v instanceof Date) && !(v instanceof RegExp) && !Buffer.isBuffer(v);
const numberOf = (v) => {
  if (typeof v === 'number') return v;
  if (typeof v === 'bigint') return Number(v);
  if (v?._bsontype === 'Long') return v.toNumber();
  if (v?._bsontype === 'Int32' || v?._bsontype === 'Double') return v.valueOf();
  return undefined;
};

const isInt = (v) => Number.isInteger(numberOf(v));
const kTypes = {
  double: (v) => typeof v === 'number' || v?._bsontype === 'Double',
  string: (v) => typeof v === 'string',
  object: isDocument,
  array: Array.isArray,
  binData: (v) => Buffer.isBuffer(v) || v?._bsontype === 'Binary',
  undefined: (v) => v === undefined,
  objectId: (v) => v?._bsontype === 'ObjectId',
  bool: (v) => typeof v === 'boolean',
  date: (v) => v instanceof Date,
  null: (v) => v === null,
  regex: (v) => v instanceof RegExp || v?._bsontype === 'BSONRegExp',
  dbPointer: (v) => v?._bsontype === 'DBRef',
  javascript: (v) => v?._bsontype === 'Code',
  symbol: (v) => v?._bsontype === 'BSONSymbol',
  javascriptWithScope: (v) => v?._bsontype === 'Code' && v.scope != null,
  int: (v) => isInt(v),
  timestamp: (v) => v?._bsontype === 'Timestamp',
  long: (v) => isInt(v),
  decimal: (v) => v?._bsontype === 'Decimal128',
  minKey: (v) => v?._bsontype === 'MinKey',
  maxKey: (v) => v?._bsontype === 'MaxKey',
  number: (v) => numberOf(v) !== undefined || v?._bsontype === 'Decimal128',
};

const bytesOf = (v) => (v?._bsontype === 'Binary' ? Buffer.from(v.buffer.subarray(0, v.position)) : v);

// Scalars other than numbers: equal when their BSON is.
function sameScalar(a, b) {
  if (a === b) return true;
  if (a == null || b == null || typeof a !== typeof b) return false;
  if (typeof a !== 'object') return false;
  return Buffer.compare(bson.serialize({v: a}), bson.serialize({v: b})) === 0;
}

export class Matcher {
  constructor(entities) { this.entities = entities; }

  match(actual, expected, {root = true, at = ''} = {}) {
    if (isDocument(expected)) return this.matchDocument(actual, expected, root, at);
    if (Array.isArray(expected)) return this.matchArray(actual, expected, root, at);
    const wanted = numberOf(expected);
    const same = wanted !== undefined ? Object.is(numberOf(actual), wanted) || numberOf(actual) === wanted
                                      : sameScalar(actual, expected);
    if (!same) this.fail(at, `expected ${show(expected)}, got ${show(actual)}`);
  }

  fail(at, why) { throw new Mismatch(`${at === '' ? '' : `${at.replace(/^\./, '')}: `}${why}`); }

  matchArray(actual, expected, root, at) {
    if (!Array.isArray(actual)) this.fail(at, `expected ${show(expected)}, got ${show(actual)}`);
    if (actual.length !== expected.length)
      this.fail(at, `expected ${expected.length} elements ${show(expected)}, got ${actual.length} ${show(actual)}`);
    expected.forEach((e, i) => this.match(actual[i], e, {root, at: `${at}[${i}]`}));
  }

  matchDocument(actual, expected, root, at) {
    const [first] = Object.keys(expected);
    if (first?.startsWith('$$')) return this.special(first, actual, expected[first], root, at);
    if (!isDocument(actual)) this.fail(at, `expected ${show(expected)}, got ${show(actual)}`);
    for (const [key, value] of Object.entries(expected))
      if (!this.present(actual, key, value, `${at}.${key}`))
        this.match(actual[key], value, {root: false, at: `${at}.${key}`});
    if (root) return;
    for (const key of Object.keys(actual))
      if (!(key in expected)) this.fail(at, `unexpected field ${key}: ${show(actual[key])}`);
  }

  // Operators about a field's presence; true when they have settled it.
  present(actual, key, value, at) {
    const has = Object.hasOwn(actual, key) && actual[key] !== undefined;
    if (isDocument(value) && '$$exists' in value) {
      if (value.$$exists !== has) this.fail(at, `should ${value.$$exists ? '' : 'not '}exist, is ${show(actual[key])}`);
      return true;
    }
    if (isDocument(value) && '$$unsetOrMatches' in value && !has) return true;
    if (!has && !(isDocument(value) && Object.keys(value)[0]?.startsWith('$$')))
      this.fail(at, `missing; expected ${show(value)}`);
    return false;
  }

  special(operator, actual, operand, root, at) {
    switch (operator) {
      case '$$exists':
        if ((actual !== undefined) !== operand) this.fail(at, `should ${operand ? '' : 'not '}exist, is ${show(actual)}`);
        return;
      case '$$type': {
        const types = [operand].flat();
        if (!types.some((type) => kTypes[type](actual))) this.fail(at, `expected type ${types.join(' or ')}, got ${show(actual)}`);
        return;
      }
      case '$$unsetOrMatches':
        if (actual === undefined || (actual === null && root)) return;
        return this.match(actual, operand, {root, at});
      case '$$matchesEntity':
        return this.match(actual, this.entities.get(operand), {root: false, at});
      case '$$matchesHexBytes': {
        const bytes = bytesOf(actual);
        if (!Buffer.isBuffer(bytes) || bytes.toString('hex') !== operand.toLowerCase())
          this.fail(at, `expected bytes ${operand}, got ${bytes?.toString?.('hex') ?? show(actual)}`);
        return;
      }
      case '$$sessionLsid':
        return this.match(actual, this.entities.lsid(operand), {root: false, at});
      case '$$lte': {
        if (!(numberOf(actual) <= numberOf(operand))) this.fail(at, `expected at most ${show(operand)}, got ${show(actual)}`);
        return;
      }
      case '$$matchAsDocument':
        return this.match(EJSON.parse(actual, {relaxed: true}), operand, {root: false, at});
      case '$$matchAsRoot':
        return this.match(actual, operand, {root: true, at});
      default:
        throw new mongodb.MongoAPIError(`matching operator ${operator} is not known to this runner`);
    }
  }
}
