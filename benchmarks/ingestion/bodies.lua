-- Sends each body of a file once, then ends wrk, and prints the outcome as JSON.
-- The file: for each body, its length (4 bytes, little-endian) and its bytes.
-- Arguments: the file, the path of the requests, and pairs of a header's name and value.
-- wrk must run one thread.

local ffi = require("ffi")
ffi.cdef([[
  typedef struct { long seconds; long microseconds; } time;
  int gettimeofday(time *now, void *zone);
  int getpid(void);
  int kill(int process, int signal);
]])
local INTERRUPT = 2
local clock = ffi.new("time")

local bodies = {}
local sent, received = 0, 0
local thread

local function now()
  ffi.C.gettimeofday(clock, nil)
  return tonumber(clock.seconds) + tonumber(clock.microseconds) / 1e6
end

function setup(each)
  thread = each
end

function init(args)
  local content = assert(io.open(args[1], "rb")):read("*a")
  wrk.method, wrk.path = "POST", args[2]
  for i = 3, #args, 2 do
    wrk.headers[args[i]] = args[i + 1]
  end
  local at = 1
  while at < #content do
    local a, b, c, d = content:byte(at, at + 3)
    local length = a + 256 * (b + 256 * (c + 256 * d))
    bodies[#bodies + 1] = wrk.format(nil, nil, nil, content:sub(at + 4, at + 3 + length))
    at = at + 4 + length
  end
end

function request()
  begin = begin or now()
  sent = sent + 1
  -- wrk ends up to 100 ms after the interrupt, and repeats the last body until then.
  return bodies[math.min(sent, #bodies)]
end

function response(status, _, body)
  received = received + 1
  if status >= 300 then
    io.stderr:write(status, " ", body, "\n")
  end
  if received == #bodies then
    requests, seconds = received, now() - begin
    -- wrk.thread:stop() would end this thread only: wrk itself sleeps for the duration of the run.
    ffi.C.kill(ffi.C.getpid(), INTERRUPT)
  end
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '\n{"requests": %d, "seconds": %f, "refused": %d, "broken": %d, "p50_ms": %f, "p99_ms": %f}\n',
    thread:get("requests"), thread:get("seconds"), errors.status,
    errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
