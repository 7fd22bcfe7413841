// The driver's results as plain documents, in the shape the specifications give them.
function plainMap(map) {
  return map && Object.fromEntries([...map].map(([key, value]) => [key, withoutNull(value)]));
}

function withoutNull(result) {
  const {acknowledged: _, didUpsert: __, upsertedId, ...rest} = result;
  return upsertedId === null || upsertedId === undefined ? rest : {...rest, upsertedId};
}

const kClientBulk = ['insertResults', 'updateResults', 'deleteResults'];

export function plainResult(result) {
  if (result === null || result === undefined || typeof result !== 'object') return result;
  if ('insertedIds' in result && 'upsertedIds' in result)
    return {insertedCount: result.insertedCount, matchedCount: result.matchedCount, modifiedCount: result.modifiedCount,
            deletedCount: result.deletedCount, upsertedCount: result.upsertedCount, insertedIds: result.insertedIds,
            upsertedIds: result.upsertedIds};
  if (kClientBulk.some((name) => name in result)) {
    const plain = {...result};
    for (const name of kClientBulk) plain[name] = plainMap(result[name]);
    return plain;
  }
  return result;
}

// Results of one write: no upsertedId where nothing was upserted.
export const writeResult = (result) => (result && typeof result === 'object' ? withoutNull(result) : result);
