// Tests that cannot pass whatever the server does: where the Node driver itself differs from the specification,
// and where a test assumes a set of several members. [file, description (a pattern, or all), reason].
const kGaps = [
  ['crud/bypassDocumentValidation', /bypassDocumentValidation: false/, 'driver: leaves out bypassDocumentValidation: false'],
  ['crud/create-null-ids', /via (insert|bulkWrite|clientBulkWrite)/, 'driver: replaces an _id of null'],
  ['crud/client-bulkWrite-partialResults', /partialResult is unset/, 'driver: has a partial result of zeros'],
  ['crud/client-bulkWrite-errors', /does not report a partial result/, 'driver: has a partial result of zeros'],
  ['gridfs/download', /final chunk is missing/, 'driver: does not notice a missing last chunk'],
  ['retryable-reads/gridfs-download.', /./, 'driver: asks for {_id: {$eq: id}}'],
  ['retryable-reads/gridfs-download-serverErrors.', /./, 'driver: asks for {_id: {$eq: id}}'],
  ['retryable-writes/bulkWrite.', /First insertOne is never committed/, 'driver: reports ids of what was not inserted'],
  ['server-discovery-and-monitoring/backpressure', /./, 'driver: has no SystemOverloadedError'],
  ['transactions/client-bulkWrite', /with writeConcern in a transaction causes/, 'driver: drops a write concern in a transaction'],
  ['command-logging-and-monitoring/logging/operation-id', /bulk write/, 'driver: logs no operationId'],
  ['server-discovery-and-monitoring/logging-replicaset', /Topology lifecycle|Successful heartbeat/, 'assumes several members'],
  ['server-discovery-and-monitoring/replicaset-emit-topology', /./, 'assumes several members'],
  ['server-discovery-and-monitoring/rediscover-quickly', /./, 'assumes several members'],
  ['transactions/run-command', /secondary read preference in client option/, 'assumes several members'],
  ['transactions/transaction-options', /readPreference inherited from client/, 'assumes several members'],
];

export function gapOf(file, description) {
  return kGaps.find(([name, pattern]) => file.startsWith(name) && pattern.test(description))?.[2] ?? null;
}
