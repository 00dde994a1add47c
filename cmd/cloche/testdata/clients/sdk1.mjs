// A client of the official TypeScript SDK, version 1, against a server over
// stdio: what most hosts embed, with what their users do. Prints a line of JSON
// for each check and exits with 1 if one failed.
//
//   CLOCHE_CLIENTS=DIR node sdk1.mjs COMMAND [ARGUMENT]...
//
// DIR is where "npm ci" was run with the package.json beside this file.

import { createRequire } from 'node:module';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';

const require = createRequire(join(process.env.CLOCHE_CLIENTS ?? import.meta.dirname, 'package.json'));
const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = require('@modelcontextprotocol/sdk/client/stdio.js');
const { ErrorCode, McpError } = require('@modelcontextprotocol/sdk/types.js');

const [command, ...args] = process.argv.slice(2);
if (!command) {
  console.error('usage: node sdk1.mjs COMMAND [ARGUMENT]...');
  process.exit(2);
}

let failed = false;

function line(check, ok, started, more) {
  failed ||= !ok;
  console.log(JSON.stringify({ check, ok, seconds: +((performance.now() - started) / 1000).toFixed(3), ...more }));
}

// Runs one check. What it returns is printed with it; a throw fails it.
async function check(name, run) {
  const started = performance.now();
  try {
    line(name, true, started, (await run()) ?? {});
  } catch (err) {
    line(name, false, started, { error: String(err?.message ?? err) });
  }
}

function must(condition, text, seen) {
  if (!condition) {
    throw new Error(seen === undefined ? text : `${text}; got ${JSON.stringify(seen)?.slice(0, 2000)}`);
  }
}

// Awaits an error of promise and returns it.
async function refusal(promise, what) {
  let result;
  try {
    result = await promise;
  } catch (err) {
    return err;
  }
  throw new Error(`${what} was answered: ${JSON.stringify(result).slice(0, 2000)}`);
}

function textOf(result) {
  return result.content.filter((block) => block.type === 'text').map((block) => block.text).join('\n');
}

const client = new Client({ name: 'sdk1', version: '1' }, { capabilities: {} });
const transport = new StdioClientTransport({ command, args });

const python = (code, options, more) =>
  client.callTool({ name: 'code_interpreter', arguments: { code, ...more } }, undefined, options);

// After whatever came before, a call must be answered, and soon: it must not
// wait for what nobody waits for any more.
async function answersSoon() {
  const started = performance.now();
  const result = await python('print(20 + 22)', { timeout: 40_000 });
  must(!result.isError && /\b42\b/.test(textOf(result)), 'the next call does not answer 42', result);
  const seconds = (performance.now() - started) / 1000;
  must(seconds < 15, `the next call took ${seconds.toFixed(1)} s, as long as what was given up`);
  return +seconds.toFixed(3);
}

async function checks() {
  await check('tools/list', async () => {
    const { tools } = await client.listTools();
    const names = tools.map((tool) => tool.name);
    for (const name of ['code_interpreter', 'sandbox_status']) {
      must(names.includes(name), `no tool ${name}`, names);
    }
    for (const tool of tools) {
      must(tool.description?.length > 0 && tool.description.length < 2048, `${tool.name}: description`, tool.description);
      must(tool.title || tool.annotations?.title, `${tool.name}: no title`, tool);
      for (const hint of ['readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint']) {
        must(typeof tool.annotations?.[hint] === 'boolean', `${tool.name}: no ${hint}`, tool.annotations);
      }
    }
    return { tools: names.length };
  });

  await check('code_interpreter', async () => {
    const result = await python('print(1+1)');
    must(!result.isError, 'isError', result);
    must(/^2$/m.test(textOf(result)), 'no line "2" in the text', textOf(result));
    const structured = result.structuredContent;
    must(structured && typeof structured === 'object', 'no structuredContent', result);
    must(String(structured.stdout).trim() === '2', 'structuredContent.stdout is not "2"', structured);
    must(structured.exit.code === 0, 'structuredContent.exit.code is not 0', structured);
    return { headline: textOf(result).split('\n', 1)[0] };
  });

  await check('an exception is a result', async () => {
    const result = await python('def f(x):\n    return 1 / x\n\nf(0)');
    must(!result.isError, 'code that ran is not an error of the tool', result);
    must(textOf(result).includes('ZeroDivisionError'), 'no ZeroDivisionError in the text', textOf(result));
  });

  await check('progress', async () => {
    const started = performance.now();
    const seen = [];
    let answered = false;
    let late = 0;
    const onprogress = (progress) => {
      seen.push(progress.progress);
      late += answered ? 1 : 0;
    };
    const code = 'import time\nfor i in range(5):\n    print(i, flush=True)\n    time.sleep(0.5)';
    const result = await python(code, { onprogress, timeout: 40_000 });
    answered = true;
    const seconds = (performance.now() - started) / 1000;
    must(!result.isError && /^4$/m.test(textOf(result)), 'the call was not answered', result);
    must(seen.length >= 1, 'no progress in 2.5 s');
    must(seen.length <= 1 + seconds, 'more than one notice of progress a second', { seen, seconds });
    must(seen.every((value, i) => i === 0 || value > seen[i - 1]), 'progress does not grow', seen);
    await new Promise((resolve) => setTimeout(resolve, 1500));
    must(late === 0, 'progress after the result');
    return { notices: seen.length };
  });

  await check('progress resets a timeout', async () => {
    const code = 'import time\nfor i in range(7):\n    print(i, flush=True)\n    time.sleep(0.5)';
    const result = await python(code, { onprogress() {}, resetTimeoutOnProgress: true, timeout: 2500 });
    must(!result.isError && /^6$/m.test(textOf(result)), 'the call was not answered', result);
  });

  await check('timeout', async () => {
    const err = await refusal(python('import time\ntime.sleep(30)', { timeout: 2000 }), 'a call past its timeout');
    must(err instanceof McpError && err.code === ErrorCode.RequestTimeout, 'not a timeout', String(err));
    return { next: await answersSoon() };
  });

  await check('abort', async () => {
    const abort = new AbortController();
    const call = refusal(python('import time\ntime.sleep(30)', { signal: abort.signal, timeout: 40_000 }), 'an aborted call');
    setTimeout(() => abort.abort('the user pressed stop'), 1000);
    await call;
    return { next: await answersSoon() };
  });

  await check('abort of a loop', async () => {
    const abort = new AbortController();
    const code = 'while True:\n    try:\n        while True: pass\n    except BaseException:\n        pass';
    const call = refusal(python(code, { signal: abort.signal, timeout: 40_000 }), 'an aborted call');
    setTimeout(() => abort.abort('the user pressed stop'), 1000);
    await call;
    return { next: await answersSoon() };
  });

  for (const [name, wrong, said] of [
    ['wrong type', { code: 'print(1)', timeout_seconds: 'soon' }, /timeout_seconds/],
    ['unknown argument', { code: 'print(1)', timeout_second: 5 }, /timeout_second/],
    ['missing argument', {}, /code/],
    ['no arguments', undefined, /code/],
  ]) {
    await check(name, async () => {
      const result = await client.callTool({ name: 'code_interpreter', arguments: wrong });
      must(result.isError === true, 'not isError', result);
      must(said.test(textOf(result)), `the text does not name ${said}`, textOf(result));
      return { text: textOf(result).split('\n', 1)[0], next: await answersSoon() };
    });
  }

  await check('unknown tool', async () => {
    const err = await refusal(client.callTool({ name: 'no_such_tool', arguments: {} }), 'a call of an unknown tool');
    must(err instanceof McpError && err.code === ErrorCode.InvalidParams, 'not -32602', { code: err.code, text: String(err) });
    return { next: await answersSoon() };
  });

  await check('sandbox_status', async () => {
    const result = await client.callTool({ name: 'sandbox_status', arguments: {} });
    must(!result.isError, 'isError', result);
    must(textOf(result).length > 0, 'no text', result);
    return { characters: textOf(result).length };
  });

  await check('ping', () => client.ping().then(() => {}));
}

// A server that answers nothing must not keep the tests.
const watchdog = setTimeout(() => {
  line('watchdog', false, 0, { error: 'not done after 180 s' });
  process.exit(1);
}, 180_000);

let connected = false;
await check('initialize', async () => {
  await client.connect(transport, { timeout: 30_000 });
  connected = true;
  return { server: client.getServerVersion() };
});
if (connected) {
  await checks();
}
await check('close', async () => {
  const started = performance.now();
  await client.close();
  const seconds = (performance.now() - started) / 1000;
  must(!connected || seconds < 3.9, 'the server ended neither with its stdin nor at SIGTERM; it was killed');
});
clearTimeout(watchdog);
process.exit(failed ? 1 : 0);
