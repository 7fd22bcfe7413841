// What a test needs of the server (runOnRequirements), and what this server is.
const kParts = 3;

function compareVersions(a, b) {
  const [x, y] = [a, b].map((v) => v.split('.').map((n) => parseInt(n, 10)));
  for (let i = 0; i < kParts; ++i)
    if ((x[i] ?? 0) !== (y[i] ?? 0)) return (x[i] ?? 0) - (y[i] ?? 0);
  return 0;
}

// A maximum "8.0" admits 8.0.5: only the parts that are named count.
function atMost(version, limit) {
  const named = limit.split('.').length;
  return compareVersions(version.split('.').slice(0, named).join('.'), limit) <= 0;
}

export async function describeServer(client) {
  const admin = client.db('admin');
  const hello = await admin.command({hello: 1});
  const {version} = await admin.command({buildInfo: 1});
  const parameters = await admin.command({getParameter: '*'});
  let failCommand = true;
  try {
    await admin.command({configureFailPoint: 'failCommand', mode: 'off'});
  } catch {
    failCommand = false;
  }
  return {version, topology: hello.setName ? 'replicaset' : 'single', setName: hello.setName, parameters, failCommand};
}

function unmetPart(need, server) {
  if (need.minServerVersion && compareVersions(server.version, need.minServerVersion) < 0)
    return `server at least ${need.minServerVersion}`;
  if (need.maxServerVersion && !atMost(server.version, need.maxServerVersion))
    return `server at most ${need.maxServerVersion}`;
  if (need.topologies && !need.topologies.includes(server.topology)) return `topology ${need.topologies.join('/')}`;
  if (need.auth === true) return 'authentication';
  if (need.serverless === 'require') return 'serverless';
  if (need.csfle) return 'client-side encryption';
  for (const [name, value] of Object.entries(need.serverParameters ?? {}))
    if (server.parameters[name] !== value) return `server parameter ${name}=${value}`;
  return null;
}

// Null, or why none of the alternatives holds.
export function unmet(requirements, server) {
  if (!requirements || requirements.length === 0) return null;
  const reasons = requirements.map((need) => unmetPart(need, server));
  return reasons.includes(null) ? null : `needs ${[...new Set(reasons)].join(', or ')}`;
}

const kFailPoints = new Set(['failPoint', 'targetedFailPoint']);
export function usesFailPoint(operations = []) {
  return operations.some((o) => kFailPoints.has(o.name) || usesFailPoint(o.arguments?.callback) ||
                                (o.arguments?.operation && usesFailPoint([o.arguments.operation])));
}
