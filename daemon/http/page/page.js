"use strict";
/* The page: asks /status once a second and shows it; asks /sheet when the reader wants it.
 *
 * The page inserts everything that the daemon says as text (textContent, append of strings), never as markup: other people
 * choose the names of classes and the paths. Every key of the status may be absent or null. The page makes each node once
 * and keeps it: nothing jumps, the reader keeps position and focus, and an update stays cheap with many streams and
 * trainers. Lengths that follow from numbers are set through the CSSOM, which the Content-Security-Policy allows although
 * it forbids style="...". */
(() => {
	const SECOND = 1000;
	const LIMIT = 5 * SECOND; /* for one answer */
	const BACK_OFF = [1, 2, 4, 8, 10]; /* seconds between requests while nothing answers */
	const HISTORY = 300 * SECOND;
	const RATE_OVER = 3; /* seconds of the daemon's clock, which has a resolution of 0.1 s */
	const STANDS_STILL = 4 * SECOND; /* without a change of the daemon's clock */
	const FEW_STREAMS = 12, FEW_TRAINERS = 50, OPEN_BY_ITSELF = 1;
	const FILTER_FROM = 8;
	const SHEET_EVERY = 5 * SECOND;
	const COLOURS = 10;

	/* ---- values from the daemon, which may have any type ---- */

	const number = (value) => (typeof value === "number" && Number.isFinite(value) ? value : null);
	const text = (value) => (typeof value === "string" ? value : "");
	const list = (value) => (Array.isArray(value) ? value : []);
	const object = (value) => (value !== null && typeof value === "object" && !Array.isArray(value) ? value : {});
	const most = (values) => values.reduce((a, b) => (b === null || (a !== null && a >= b) ? a : b), null);
	const sum = (values) => values.reduce((a, b) => (b === null ? a : (a || 0) + b), null);

	/* ---- numbers with units ---- */

	const UNKNOWN = "not known";
	const grouped = new Intl.NumberFormat("en", {maximumFractionDigits: 0});
	const decimal = new Intl.NumberFormat("en", {minimumFractionDigits: 1, maximumFractionDigits: 1});
	const count = (n) => (n === null ? UNKNOWN : grouped.format(n));
	const several = (n, one, many) => `${count(n)} ${n === 1 ? one : many || one + "s"}`;
	const short = (n) => (Math.abs(n) < 100 ? decimal.format(n) : grouped.format(n));
	const percent = (share) => (share === null ? UNKNOWN : `${Math.round(100 * share)} %`);
	const perSecond = (n) => (n === null ? UNKNOWN : `${short(n)} images/s`);
	const millis = (n) => (n === null ? UNKNOWN : `${n < 10 ? decimal.format(n) : grouped.format(n)} ms`);

	function bytes(n) {
		if (n === null)
			return UNKNOWN;
		const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
		let unit = 0;
		while (n >= 1024 && unit + 1 < units.length) {
			n /= 1024;
			unit++;
		}
		return unit ? `${decimal.format(n)} ${units[unit]}` : `${grouped.format(n)} B`;
	}

	function duration(seconds) {
		if (seconds === null)
			return UNKNOWN;
		const s = Math.floor(seconds);
		if (s < 60)
			return `${s} s`;
		if (s < 3600)
			return `${Math.floor(s / 60)} min ${s % 60} s`;
		if (s < 86400)
			return `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
		return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
	}

	/* ---- nodes ---- */

	const $ = (id) => document.getElementById(id);

	/* Makes a node with attributes; strings in `inside` become text. */
	function make(tag, attributes, ...inside) {
		const node = document.createElement(tag);
		for (const [name, value] of Object.entries(attributes || {}))
			node.setAttribute(name, value);
		node.append(...inside);
		return node;
	}

	function put(node, words) {
		if (node.textContent !== words)
			node.textContent = words;
	}

	function mark(node, name, value) {
		if (value === "" || value === null)
			node.removeAttribute(name);
		else if (node.getAttribute(name) !== String(value))
			node.setAttribute(name, value);
	}

	function show(node, wanted) {
		if (node.hidden === Boolean(wanted))
			node.hidden = !wanted;
	}

	function say(words) {
		put($("say"), words);
	}

	/* Gives `parent` one child per item, in the items' order; makes it once for each key and keeps it. It first removes the
	 * children that have no item any more: then a child that stays need not move, and moving would take the focus from it. */
	const children = new WeakMap();
	function keyed(parent, items, keyOf, build, update) {
		const before = children.get(parent) || new Map();
		const now = new Map();
		for (const item of items) {
			const base = String(keyOf(item));
			let key = base;
			for (let n = 2; now.has(key); n++)
				key = `${base}\n${n}`;
			now.set(key, before.get(key) || build(item));
		}
		for (const [key, entry] of before)
			if (!now.has(key))
				entry.node.remove();
		let at = parent.firstElementChild, place = 0;
		for (const entry of now.values()) {
			if (entry.node === at)
				at = at.nextElementSibling;
			else
				parent.insertBefore(entry.node, at);
			update(entry, items[place++]);
		}
		children.set(parent, now);
	}

	/* ---- bars ---- */

	function newTrough(label) {
		const fill = make("span");
		const node = make("div", {class: "trough", role: "meter", "aria-valuemin": 0, "aria-valuemax": 100, "aria-label": label}, fill);
		return {node, fill};
	}

	function setTrough(trough, share, words, tone) {
		const part = Math.max(0, Math.min(1, share || 0));
		const width = `${(100 * part).toFixed(1)}%`;
		if (trough.fill.style.width !== width)
			trough.fill.style.width = width;
		mark(trough.node, "aria-valuenow", Math.round(100 * part));
		mark(trough.node, "aria-valuetext", words);
		mark(trough.node, "data-tone", tone || "");
	}

	function newBar(item) {
		const label = make("span", {class: "label"}, item.label);
		const words = make("span", {class: "text"});
		const trough = newTrough(item.label);
		return {node: make("div", {class: "bar"}, label, words, trough.node), label, trough, words};
	}

	/* Items {label, share, text, tone}; an item whose share is undefined is a line without a bar. */
	function bars(parent, items) {
		keyed(parent, items, (item) => item.label, newBar, (bar, item) => {
			bar.node.classList.toggle("plain", item.share === undefined);
			mark(bar.trough.node, "aria-hidden", item.share === undefined ? "true" : "");
			setTrough(bar.trough, item.share, item.text, item.tone);
			put(bar.words, item.text);
		});
	}

	function newPiece(color) {
		const piece = make("span");
		piece.style.background = color;
		return {node: piece};
	}

	function newLegend(item) {
		const swatch = make("span", {class: "swatch"});
		swatch.style.background = item.color;
		const label = make("span", {class: "label"});
		const words = make("span", {class: "text"});
		return {node: make("li", {}, swatch, label, words), label, words};
	}

	/* Parts {label, value, text, color} of a whole, side by side, with a legend if `legend` is given. */
	function stack(bar, legend, parts, whole) {
		mark(bar, "aria-label", parts.map((part) => `${part.label} ${part.text}`).join(", "));
		keyed(bar, parts, (part) => part.label, (part) => newPiece(part.color), (piece, part) => {
			piece.node.style.width = `${(whole > 0 ? 100 * part.value / whole : 0).toFixed(2)}%`;
		});
		if (legend)
			keyed(legend, parts, (part) => part.label, newLegend, (line, part) => {
				put(line.label, part.label);
				put(line.words, part.text);
			});
	}

	/* ---- charts ---- */

	const charts = [];

	/* `words` formats a value; `scale` computes the end of the scale from the largest value. */
	function newChart(name, words, scale) {
		const node = $("chart-template").content.firstElementChild.cloneNode(true);
		const part = (kind) => node.querySelector(kind);
		put(part(".name"), name);
		$("charts").append(node);
		const chart = {node, name, words, scaleOf: scale, points: [], now: part(".now"), svg: part("svg"), line: part(".line"), area: part(".area"),
			top: part(".top")};
		charts.push(chart);
		return chart;
	}

	function addPoint(chart, time, value) {
		chart.points.push({time, value});
		while (chart.points.length && chart.points[0].time < time - HISTORY)
			chart.points.shift();
	}

	/* The smallest number with one significant digit that is at least n. */
	function roundUp(n) {
		const power = 10 ** Math.floor(Math.log10(n));
		return Math.ceil(n / power) * power;
	}

	function roundUpBytes(n) {
		const unit = 1024 ** Math.floor(Math.log2(n) / 10);
		return unit * roundUp(n / unit);
	}

	function runsOf(points) {
		const runs = [[]];
		for (const point of points)
			if (point.value === null)
				runs.push([]);
			else
				runs[runs.length - 1].push(point);
		return runs.filter((run) => run.length);
	}

	function drawChart(chart, time) {
		const values = chart.points.map((point) => point.value).filter((value) => value !== null);
		const last = chart.points.length ? chart.points[chart.points.length - 1].value : null;
		const high = most(values);
		const top = high > 0 ? chart.scaleOf(high) : 1;
		const x = (point) => (300 * (1 - (time - point.time) / HISTORY)).toFixed(2);
		const y = (point) => (79 - 77 * Math.min(1, point.value / top)).toFixed(2);
		let line = "", area = "";
		for (const run of runsOf(chart.points)) {
			const way = run.map((point) => `${x(point)} ${y(point)}`).join("L");
			line += `M${way}`;
			area += `M${x(run[0])} 80L${way}L${x(run[run.length - 1])} 80Z`;
		}
		chart.line.setAttribute("d", line);
		chart.area.setAttribute("d", area);
		put(chart.now, last === null ? UNKNOWN : chart.words(last));
		put(chart.top, high > 0 ? chart.words(top) : "");
		const low = values.length ? values.reduce((a, b) => Math.min(a, b)) : null;
		mark(chart.svg, "aria-label", values.length ? `${chart.name}: now ${last === null ? UNKNOWN : chart.words(last)}, least ` +
			`${chart.words(low)}, most ${chart.words(high)}` : `${chart.name}: nothing measured yet`);
	}

	/* ---- rates: growth over the last seconds of the daemon's clock ---- */

	let moments = [];

	function noteMoment(status) {
		const now = {uptime: number(status.uptime_s), images: number(status.images), read: number(status.read_bytes), stages: object(status.stages),
			pid: status.pid};
		const last = moments[moments.length - 1];
		if (now.uptime === null || (last && (last.pid !== now.pid || last.uptime > now.uptime)))
			moments = [];
		else if (last && last.uptime === now.uptime)
			moments.pop();
		moments.push(now);
		while (moments.length > 2 && moments[1].uptime <= now.uptime - RATE_OVER)
			moments.shift();
	}

	/* Growth of `pick` per second; null while it is not known. */
	function growth(pick) {
		const from = moments[0], to = moments[moments.length - 1];
		const a = from && number(pick(from)), b = to && number(pick(to));
		const seconds = to ? to.uptime - from.uptime : 0;
		return seconds > 0.5 && a !== null && b !== null ? Math.max(0, b - a) / seconds : null;
	}

	/* ---- the whole daemon ---- */

	const stateOf = (stream) => text(stream.state) || "state not known";
	const nameOf = (stream) => text(stream.name) || text(stream.source) || "(without a name)";
	/* "val · rank 2 of 4", "/data/imagenet · eval, seed 3": with what tells it apart from the others of its dataset. */
	const calledOf = (stream) => [nameOf(stream), rankOf(stream), text(stream.differs)].filter(Boolean).join(" · ");
	const waitOf = (stream) => number(object(stream.bottleneck).trainer_wait);
	const TONES = {trainer: "good", decode: "warn", read: "warn", memory: "warn", held: "bad"};

	/* The stream that the daemon's verdict is about: the one whose trainers wait most; among
	 * equals the last. */
	function worstStream(streams) {
		return streams.filter((stream) => Object.keys(object(stream.bottleneck)).length)
			.reduce((worst, stream) => (worst && (waitOf(worst) || 0) > (waitOf(stream) || 0) ? worst : stream), null);
	}

	function verdictOf(status, streams, worst) {
		const words = text(status.verdict) || (worst && text(worst.verdict)) || "";
		if (!streams.length)
			return "No stream is open: no trainer has asked for batches yet.";
		if (words)
			return words;
		if (streams.every((stream) => stateOf(stream) === "indexing"))
			return "Indexing: the first batches come when the sources are indexed.";
		return text(streams[0].verdict) || "not measured yet";
	}

	function readLine(evidence) {
		const now = number(evidence.read_bytes_per_s), best = number(evidence.read_bytes_per_s_best);
		if (now === null)
			return [];
		return [{label: "reads, page cache included", share: best > 0 ? now / best : undefined,
			text: best > 0 ? `${bytes(now)}/s; best ${bytes(best)}/s` : `${bytes(now)}/s`}];
	}

	function evidenceOf(worst) {
		const evidence = object(worst && worst.bottleneck);
		const full = evidence.kind === "held" ? "bad" : "good";
		const shares = [["trainer_wait", "a trainer waits for a batch", "warn"], ["slots_full", "every slot is complete or held", full],
			["cpu_busy", "processors used by penstockd", ""], ["cpu_stolen", "processors that other processes used", "warn"],
			["workers_idle", "decoding threads wait for samples", ""], ["permit_wait", "they wait for memory for large images", "warn"],
			["read_busy", "a read is under way", ""], ["buffers_full", "reads wait for a buffer", "warn"]];
		return shares.filter(([key]) => number(evidence[key]) !== null)
			.map(([key, label, tone]) => ({label, share: evidence[key], text: percent(evidence[key]), tone: evidence[key] > 0.1 ? tone : ""}))
			.concat(readLine(evidence));
	}

	function showVerdict(status, streams) {
		const worst = worstStream(streams);
		const kind = text(object(worst && worst.bottleneck).kind);
		put($("verdict"), verdictOf(status, streams, worst));
		put($("remedy"), streams.length ? text(status.remedy) : "");
		mark($("verdict-card"), "data-tone", streams.length ? TONES[kind] || "" : "");
		put($("verdict-of"), !worst ? "" : streams.length > 1 ? `Evidence of ${calledOf(worst)}, over the last 10 seconds` :
			"Evidence of the last 10 seconds");
		bars($("evidence"), evidenceOf(worst));
		keyed($("notices"), list(status.notices).map(text).filter(Boolean), (notice) => notice,
			(notice) => ({node: make("li", {}, notice)}), () => {});
		if (showVerdict.kind !== undefined && showVerdict.kind !== kind && kind)
			say(`Verdict: ${verdictOf(status, streams, worst)}`);
		showVerdict.kind = kind;
	}

	function showHead(status, streams) {
		const trainers = sum(streams.map((stream) => list(stream.trainers).length)) || 0;
		const parts = [text(status.version) && `version ${status.version}`, number(status.pid) !== null && `pid ${status.pid}`,
			number(status.uptime_s) !== null && `up ${duration(status.uptime_s)}`, several(streams.length, "stream"), several(trainers, "trainer")];
		put($("daemon"), parts.filter(Boolean).join(" · "));
		show($("draining"), status.draining === true);
	}

	function showStages(status) {
		const cpus = number(status.cpus), threads = number(status.threads);
		const whole = cpus || threads || 1;
		const names = {read: "read", decode: "decode", pixel: "resample, flip", serve: "serve trainers"};
		const known = Object.keys(names).filter((name) => number(object(status.stages)[name]) !== null);
		const rates = known.map((name) => growth((moment) => moment.stages[name]));
		const all = sum(rates);
		bars($("stages"), known.map((name, i) => ({label: names[name], share: rates[i] === null ? 0 : rates[i] / whole,
			text: rates[i] === null ? "measuring" : `${rates[i].toFixed(2)} CPUs`})));
		put($("stages-note"), !known.length ? "The daemon does not say." : (all === null ? "" : `Together ${all.toFixed(2)} processors' worth of ` +
			`${whole}; `) + (threads === null ? "" : several(threads, "decoding thread")) + ".");
	}

	const memory = {bar: make("div", {class: "trough stack", role: "img"}), legend: make("ul", {class: "legend"}), colors: new Map()};
	$("memory").append(memory.bar, memory.legend);

	/* Colors go to names in the order of their first appearance, and a name keeps its color. */
	function colorOf(name) {
		if (!memory.colors.has(name))
			memory.colors.set(name, memory.colors.size % COLOURS);
		return `var(--c${memory.colors.get(name)})`;
	}

	function showMemory(status) {
		const ledger = object(status.memory);
		const budget = number(ledger.budget), reserved = number(ledger.reserved);
		const parts = list(ledger.lines).map(object).filter((line) => number(line.bytes) !== null)
			.map((line) => ({label: text(line.name), value: line.bytes, text: bytes(line.bytes), color: colorOf(text(line.name))}));
		const used = sum(parts.map((part) => part.value)) || 0;
		if (budget !== null && budget > used)
			parts.push({label: "free", value: budget - used, text: bytes(budget - used), color: "var(--free)"});
		const resident = number(status.resident_bytes);
		put($("memory-note"), budget === null ? "The daemon does not say." : `${bytes(reserved)} of ${bytes(budget)} reserved` +
			(resident === null ? "" : `; the process has ${bytes(resident)} resident`));
		stack(memory.bar, memory.legend, parts, Math.max(budget || 0, used));
	}

	function cgroupLines(cgroup) {
		const used = number(cgroup.used), limit = number(cgroup.limit);
		if (used === null)
			return [];
		const share = limit > 0 ? used / limit : undefined;
		return [{label: "memory of the cgroup", share, tone: share > 0.95 ? "bad" : share > 0.85 ? "warn" : "",
			text: limit > 0 ? `${bytes(used)} of ${bytes(limit)}` : `${bytes(used)}, no limit`}];
	}

	function machineLines(machine) {
		const total = number(machine.total), available = number(machine.available);
		const share = total > 0 && available !== null ? 1 - available / total : null;
		return share === null ? [] : [{label: "memory of the machine", share, tone: share > 0.95 ? "bad" : "",
			text: `${bytes(total - available)} of ${bytes(total)}`}];
	}

	function pressureLines(pressure) {
		const names = {cpu_some: "stalled for CPU, some", memory_some: "stalled for memory, some", memory_full: "stalled for memory, all",
			io_some: "stalled for storage, some", io_full: "stalled for storage, all"};
		return Object.keys(names).filter((key) => number(pressure[key]) !== null && pressure[key] >= 0)
			.map((key) => ({label: names[key], share: pressure[key] / 100, text: `${decimal.format(pressure[key])} %`,
				tone: pressure[key] >= 20 && key !== "cpu_some" ? "warn" : ""}));
	}

	function gpuLines(gpus) {
		return list(gpus).map(object).map((gpu) => {
			const used = number(gpu.used), total = number(gpu.total), busy = number(gpu.busy);
			return {label: `GPU ${count(number(gpu.device))} ${text(gpu.name)}`, share: total > 0 && used !== null ? used / total : undefined,
				text: `${bytes(used)} of ${bytes(total)}` + (busy === null || busy < 0 ? "" : `, busy ${percent(busy)}`)};
		});
	}

	function showMachine(status) {
		const machine = object(status.machine), cgroup = object(machine.cgroup);
		const lines = [...cgroupLines(cgroup), ...machineLines(machine), ...pressureLines(object(machine.pressure)), ...gpuLines(status.gpus)];
		const kills = number(cgroup.oom_kills), machineKills = number(machine.oom_kills);
		const facts = [kills !== null && `OOM kills in the cgroup: ${count(kills)}`,
			machineKills !== null && `on the machine: ${count(machineKills)}`,
			number(machine.swap_free) !== null && `swap free: ${bytes(machine.swap_free)}`,
			number(machine.disk_free) !== null && `disk free for the recorder: ${bytes(machine.disk_free)}`,
			text(cgroup.path) && `cgroup ${cgroup.path}`];
		show($("machine-card"), lines.length > 0);
		bars($("machine"), lines);
		put($("machine-note"), facts.filter(Boolean).join(" · "));
		mark($("machine-note"), "data-tone", kills > 0 ? "bad" : "");
	}

	function showAbout(status) {
		const cache = object(status.cache), recorder = object(status.recorder), remote = object(status.remote), disk = object(remote.cache);
		const lookups = (number(cache.hits) || 0) + (number(cache.misses) || 0);
		const facts = [["socket", text(status.socket)], ["configuration", text(status.config) || (text(status.socket) && "none: defaults")],
			["reader", [text(status.reader), text(status.io)].filter(Boolean).join(", ")],
			["read so far", number(status.read_bytes) === null ? "" : bytes(status.read_bytes)],
			["images so far", number(status.images) === null ? "" : count(status.images)],
			["sample cache", text(cache.mode) && `${cache.mode}; ${bytes(number(cache.bytes))} in ${several(number(cache.samples), "sample")}` +
				(lookups ? `; ${percent(cache.hits / lookups)} of look-ups found` : "")],
			["remote data", number(remote.requests) !== null && [several(remote.requests, "request"), `${bytes(number(remote.bytes))} received`,
				several(number(remote.connections), "connection"), `first byte p99 ${millis(1000 * number(remote.first_byte_p99_s))}`,
				`${count(number(remote.retries))} tried again`, remote.hedges > 0 && several(remote.hedges, "hedge"), text(remote.waiting)]
				.filter(Boolean).join(", ")],
			["disk cache", number(disk.size) !== null && `${bytes(number(disk.used))} of ${bytes(disk.size)}; ${bytes(number(remote.hit_bytes))} read from it`],
			["checkpoints", status.checkpoints === undefined ? "" : status.checkpoints ? "kept" : "off"],
			["flight recorder", text(recorder.path) ? recorder.path + (recorder.dropped > 0 ? `; ${count(recorder.dropped)} records dropped` : "") :
				status.recorder === null ? "off" : ""],
			["this page", text(status.http)]];
		keyed($("about"), facts.filter((fact) => fact[1]).flatMap(([name, words]) => [["dt", name, name], ["dd", name, words]]),
			([tag, name]) => `${tag} ${name}`, ([tag]) => ({node: make(tag)}), (entry, [, , words]) => put(entry.node, words));
	}

	/* ---- streams ---- */

	const rankOf = (stream) => (stream.share === "split" && number(stream.rank) !== null ? `rank ${stream.rank} of ${stream.world_size}` : "");
	const keyOf = (stream) => [stream.name, stream.source, stream.group, stream.rank, stream.train, stream.seed, stream.image_size,
		stream.batch_size].map(String).join("\n");

	function atOf(stream) {
		if (stateOf(stream) === "indexing") {
			const done = number(stream.indexed_bytes), whole = number(stream.total_bytes), samples = number(stream.indexed_samples);
			return [samples !== null && several(samples, "sample"), whole > 0 && `${bytes(done)} of ${bytes(whole)}`].filter(Boolean).join(", ");
		}
		if (number(stream.epoch) === null)
			return "";
		return `epoch ${count(stream.epoch)}, batch ${count(number(stream.batch))} of ${count(number(stream.batches))}`;
	}

	function doneOf(stream) {
		const [part, whole] = stateOf(stream) === "indexing" ? [stream.indexed_bytes, stream.total_bytes] : [stream.batch, stream.batches];
		return number(whole) > 0 ? number(part) / whole : 0;
	}

	const SLOTS = [["with trainers", "leased", "var(--c0)"], ["ready", "ready", "var(--c2)"], ["being filled", "slots_filling", "var(--c4)"],
		["free", "slots_free", "var(--free)"]];

	function slotParts(stream) {
		return SLOTS.filter(([, key]) => number(stream[key]) !== null)
			.map(([label, key, color]) => ({label, value: stream[key], text: count(stream[key]), color}));
	}

	const tally = (reasons) => Object.entries(object(reasons)).filter(([, n]) => number(n) > 0)
		.map(([reason, n]) => `${reason} ${count(n)}`).join(", ");

	function factsOf(stream) {
		const waits = object(stream.waits_ms), checkpoints = object(stream.checkpoints);
		return [["source", text(stream.source)], ["group", text(stream.group)],
			["batches", number(stream.batch_size) === null ? "" : `${several(stream.batch_size, "image")} of ${stream.image_size} × ` +
				`${stream.image_size} pixels` + (number(stream.slot_bytes) === null ? "" : `, ${bytes(stream.slot_bytes)} each`)],
			["dataset", number(stream.samples) === null ? "" : several(stream.samples, "sample")],
			["order", [stream.shuffle === true ? "shuffled" : stream.shuffle === false ? "sequential" : "",
				stream.train === true ? "training recipe" : stream.train === false ? "evaluation recipe" : "",
				text(stream.decode) && `${stream.decode} decoding`, text(stream.interpolation)].filter(Boolean).join(", ")],
			["transforms", (Array.isArray(stream.transforms) ? stream.transforms : []).map((step) => Object.keys(object(step))[0]).filter(Boolean)
				.join(", ")],
			["sharing", [stream.share === "split" ? rankOf(stream) : stream.share === "all" ? "every trainer gets every batch" : "",
				number(stream.wait_for) > 1 ? `waits for ${stream.wait_for} trainers` : "", stream.laggard === "detach" ? "laggards are detached" : ""]
				.filter(Boolean).join("; ")],
			["wait for a batch", number(waits.p50) === null ? "" : `${millis(waits.p50)} at the median, ${millis(number(waits.p99))} at p99`],
			["images made", number(stream.images) === null ? "" : count(stream.images)],
			["broken samples", stream.broken === undefined ? "" : tally(stream.broken) || "none"],
			["decoded by libjpeg-turbo", stream.fallbacks === undefined ? "" : tally(stream.fallbacks) || "none"],
			["checkpoints", number(checkpoints.used) === null ? "" : `${count(checkpoints.used)} used, ${count(number(checkpoints.made))} made, ` +
				`${count(number(checkpoints.dropped))} dropped`],
			["shared memory", stream.locked === undefined ? "" : [stream.locked ? "locked" : "not locked", stream.huge_pages ? "2 MiB pages" : ""]
				.filter(Boolean).join(", ")]].filter((fact) => fact[1]);
	}

	function newStream(open) {
		const part = (name) => make("span", {class: name});
		const parts = {title: part("title"), state: part("state"), at: part("at note"), rate: part("rate")};
		const progress = newTrough("position in the epoch");
		const summary = make("summary", {}, parts.title, parts.state, parts.at, parts.rate, progress.node);
		const sentence = make("p", {class: "sentence"}), remedy = make("p", {class: "sentence remedy"}), notice = make("p", {class: "sentence", "data-tone": "warn"});
		const slots = make("div", {class: "trough stack", role: "img"}), legend = make("ul", {class: "legend"});
		const slotsBox = make("div", {}, make("p", {class: "note"}, "slots of shared memory"), slots, legend), facts = make("dl");
		const node = make("details", {class: "stream"}, summary, make("div", {class: "inside"}, sentence, remedy, notice, slotsBox, facts));
		node.open = open;
		const entry = {node, ...parts, progress, sentence, remedy, notice, slots, legend, slotsBox, facts, stream: null};
		node.addEventListener("toggle", () => node.open && showInside(entry));
		return entry;
	}

	function showInside(entry) {
		const stream = entry.stream, parts = slotParts(stream);
		put(entry.sentence, text(stream.verdict));
		show(entry.sentence, text(stream.verdict));
		put(entry.remedy, text(stream.remedy));
		show(entry.remedy, text(stream.remedy));
		put(entry.notice, text(stream.notice));
		show(entry.notice, text(stream.notice));
		show(entry.slotsBox, parts.length);
		stack(entry.slots, entry.legend, parts, sum(parts.map((part) => part.value)) || 0);
		keyed(entry.facts, factsOf(stream).flatMap(([name, words]) => [["dt", name, name], ["dd", name, words]]),
			([tag, name]) => `${tag} ${name}`, ([tag]) => ({node: make(tag)}), (line, [, , words]) => put(line.node, words));
	}

	function showStream(entry, stream) {
		entry.stream = stream;
		put(entry.title, calledOf(stream));
		put(entry.state, stateOf(stream));
		put(entry.at, atOf(stream));
		put(entry.rate, number(stream.rate) === null ? "" : perSecond(stream.rate));
		setTrough(entry.progress, doneOf(stream), atOf(stream));
		if (entry.node.open)
			showInside(entry);
	}

	let allStreams = false, allTrainers = false;

	const wanted = () => $("filter").value.trim().toLowerCase();
	const fits = (words, filter) => !filter || words.join("\n").toLowerCase().includes(filter);

	function more(button, shown, all, what, open) {
		show(button, shown < all || open);
		put(button, open ? `Show fewer ${what}` : `Show all ${count(all)} ${what}`);
	}

	/* Shows the first few streams, or all after a click. */
	function showStreams(streams) {
		const filter = wanted();
		const found = streams.filter((stream) => fits([calledOf(stream), text(stream.source), text(stream.group), stateOf(stream)], filter));
		const shown = allStreams ? found : found.slice(0, FEW_STREAMS);
		put($("streams-count"), filter ? `${count(found.length)} of ${count(streams.length)}` : streams.length > 1 ? count(streams.length) : "");
		put($("streams-empty"), streams.length ? `No stream fits “${$("filter").value}”.` :
			"No stream is open: a trainer opens one.");
		show($("streams-empty"), !found.length);
		keyed($("streams"), shown, keyOf, () => newStream(streams.length <= OPEN_BY_ITSELF), showStream);
		more($("streams-more"), shown.length, found.length, "streams", allStreams && found.length > FEW_STREAMS);
	}

	/* ---- trainers ---- */

	function trainersOf(streams) {
		return streams.flatMap((stream) => list(stream.trainers).map((trainer) => ({...object(trainer), stream,
			rank: stream.share === "split" ? number(stream.rank) : null})));
	}

	const CELLS = [["pid", "pid", (t) => (number(t.pid) === null ? UNKNOWN : String(t.pid))], ["stream", "name", (t) => [nameOf(t.stream), text(t.stream.differs)].filter(Boolean).join(" · ")],
		["rank", "", (t) => (t.rank === null ? "–" : `${t.rank} of ${t.stream.world_size}`)],
		["epoch, batch", "", (t) => (number(t.epoch) === null ? "–" : `${count(t.epoch)}, ${count(number(t.batch))}`)],
		["holds", "", (t) => (number(t.held) === null ? "–" : number(t.stream.slots) === null ? count(t.held) :
			`${t.held} of ${several(t.stream.slots, "slot")}`)],
		["waits", "", (t) => (number(t.waits) === null ? "–" : percent(t.waits))],
		["CPU", "", (t) => (number(t.cpu) === null || t.cpu < 0 ? "–" : t.cpu.toFixed(2))],
		["resident", "", (t) => (number(t.resident_bytes) === null ? "–" : bytes(t.resident_bytes))],
		["GPU", "", (t) => (number(t.gpu_bytes) === null ? "–" : bytes(t.gpu_bytes))],
		["command", "command", (t) => text(t.command) || "–"]];

	function newTrainer() {
		const cells = CELLS.map(([label, kind]) => make("td", {role: "cell", "data-label": label, ...(kind ? {class: kind} : {})}));
		return {node: make("tr", {role: "row"}, ...cells), cells};
	}

	function showTrainer(entry, trainer) {
		mark(entry.node, "data-tone", trainer.blocks === true ? "bad" : "");
		entry.cells.forEach((cell, i) => put(cell, CELLS[i][2](trainer)));
	}

	function showBlockers(trainers) {
		const blockers = trainers.filter((trainer) => trainer.blocks === true);
		const words = blockers.slice(0, 3).map((t) => `pid ${t.pid} blocks the other trainers of ${nameOf(t.stream)}` +
			(number(t.held_s) > 0 ? ` for ${duration(t.held_s)}` : ""));
		if (blockers.length > 3)
			words.push(`${count(blockers.length - 3)} more trainers do the same`);
		put($("blockers"), words.join("; "));
		show($("blockers"), blockers.length);
	}

	function showTrainers(streams) {
		const trainers = trainersOf(streams), filter = wanted(), key = $("sort").value;
		const found = trainers.filter((t) => fits([String(t.pid), nameOf(t.stream), text(t.stream.group), text(t.command)], filter));
		if (key)
			found.sort((a, b) => (number(b[key]) || 0) - (number(a[key]) || 0));
		const shown = allTrainers ? found : found.slice(0, FEW_TRAINERS);
		put($("trainers-count"), filter ? `${count(found.length)} of ${count(trainers.length)}` : trainers.length > 1 ? count(trainers.length) : "");
		put($("trainers-empty"), trainers.length ? `No trainer fits “${$("filter").value}”.` : "No trainer is attached.");
		show($("trainers-empty"), !found.length);
		show($("trainers-table"), found.length);
		show($("trainers-sort"), trainers.length > 2);
		showBlockers(trainers);
		keyed($("trainers"), shown, (t) => `${keyOf(t.stream)}\n${t.pid}`, newTrainer, showTrainer);
		more($("trainers-more"), shown.length, found.length, "trainers", allTrainers && found.length > FEW_TRAINERS);
		show($("filter-row"), filter || streams.length > FILTER_FROM || trainers.length > FILTER_FROM);
	}

	/* ---- charts of the daemon ---- */

	const chart = {
		images: newChart("Images, all streams", (n) => `${short(n)} images/s`, roundUp),
		waits: newChart("Trainers' waits, the longest", (n) => percent(n), () => 1),
		read: newChart("Reads, page cache included", (n) => `${bytes(n)}/s`, roundUpBytes),
	};

	/* A point that is null in every chart: a gap. */
	function drawCharts(status, streams) {
		const time = performance.now();
		const imagesPerSecond = growth((moment) => moment.images);
		const waits = most([...trainersOf(streams).map((t) => number(t.waits)), ...streams.map(waitOf)]);
		addPoint(chart.images, time, status ? imagesPerSecond === null ? sum(streams.map((s) => number(s.rate))) : imagesPerSecond : null);
		addPoint(chart.waits, time, status ? waits : null);
		addPoint(chart.read, time, status ? growth((moment) => moment.read) : null);
		mark(chart.waits.node, "data-tone", waits > 0.1 ? "warn" : "");
		for (const one of charts)
			drawChart(one, time);
		return chart.images.points[chart.images.points.length - 1].value;
	}

	/* ---- the contact sheet ---- */

	let streamsNow = [], sheetTimer = 0, sheetBusy = false;
	let sheetDue = false; /* the reader asked, and no batch was complete yet */

	/* The text that a PNG carries under `keyword` (iTXt, not compressed), or "". */
	function textOfPng(data, keyword) {
		const view = new DataView(data.buffer), latin = (from, to) => String.fromCharCode(...data.subarray(from, to));
		for (let at = 8; at + 12 <= data.length;) {
			const size = view.getUint32(at), body = at + 8;
			if (latin(at + 4, at + 8) === "iTXt" && latin(body, body + keyword.length + 1) === `${keyword}\0`) {
				let from = body + keyword.length + 3; /* compression flag and method */
				for (let zeros = 0; zeros < 2 && from < data.length; from++)
					zeros += data[from] === 0;
				return new TextDecoder().decode(data.subarray(from, body + size));
			}
			at = body + size + 4;
		}
		return "";
	}

	function captionOf(row) {
		const label = number(row.label);
		const name = text(row.class) || (label === null || label < 0 ? "unlabelled" : `class ${label}`);
		const flags = list(row.flags).map(text).filter(Boolean);
		return {name, flags: flags.join(", "), odd: flags.some((flag) => !flag.startsWith("flipped")), index: `sample ${count(number(row.index))}`};
	}

	function newTile() {
		const canvas = make("canvas", {role: "img"});
		const parts = {name: make("div", {class: "name"}), flags: make("div", {class: "flags"}), index: make("div", {class: "index"})};
		return {node: make("li", {}, canvas, make("div", {class: "caption"}, parts.name, parts.flags, parts.index)), canvas, ...parts};
	}

	function drawTile(tile, words, picture, place, row) {
		const caption = captionOf(object(row)), size = [words.width, words.height];
		if (tile.canvas.width !== size[0] || tile.canvas.height !== size[1])
			[tile.canvas.width, tile.canvas.height] = size;
		tile.canvas.getContext("2d").drawImage(picture, place % words.columns * size[0], Math.floor(place / words.columns) * size[1], ...size, 0, 0, ...size);
		mark(tile.canvas, "aria-label", [caption.name, caption.flags, caption.index].filter(Boolean).join(", "));
		mark(tile.name, "title", caption.name);
		mark(tile.flags, "data-tone", caption.odd ? "warn" : "");
		for (const part of ["name", "flags", "index"])
			put(tile[part], caption[part]);
	}

	async function drawSheet(answer, stream) {
		const data = new Uint8Array(await answer.arrayBuffer());
		const words = object(JSON.parse(textOfPng(data, "penstock")));
		const picture = await createImageBitmap(new Blob([data], {type: "image/png"}));
		const rows = list(words.images);
		keyed($("sheet"), rows.map((row, place) => ({row, place})), (item) => item.place, newTile,
			(tile, item) => drawTile(tile, words, picture, item.place, item.row));
		picture.close();
		put($("sheet-note"), `${calledOf(stream)}: epoch ${count(number(words.epoch))}, batch ${count(number(words.batch))}; ${count(rows.length)} of ` +
			`${several(number(words.batch_rows), "row")}` + (words.step > 1 ? `, every ${words.step === 2 ? "second" : `${words.step}th`} pixel` : ""));
	}

	async function askSheet() {
		const place = streamsNow.findIndex((stream, i) => sheetKey(stream, i) === $("sheet-stream").value);
		const stream = streamsNow[place];
		if (sheetBusy || !stream)
			return;
		sheetBusy = true;
		sheetDue = false;
		try {
			const answer = await fetch(`sheet?stream=${place}`, {cache: "no-store", signal: AbortSignal.timeout(LIMIT)});
			sheetDue = answer.status === 404;
			if (answer.ok)
				await drawSheet(answer, stream);
			else
				put($("sheet-note"), sheetDue ? "No batch is complete now; the page shows the next one as soon as it is complete." :
					`No images: the daemon answered ${answer.status} ${(await answer.text()).slice(0, 200)}`);
		} catch (error) {
			put($("sheet-note"), error.name === "TimeoutError" ? `No images: no answer in ${LIMIT / SECOND} s` : "No images: the daemon does not answer.");
		}
		sheetBusy = false;
	}

	/* The end has what tells streams apart, so the beginning gives way. */
	const shortened = (words, most) => (words.length > most ? `…${words.slice(1 - most)}` : words);
	const sheetKey = (stream, place) => `${keyOf(stream)}\n${streamsNow.slice(0, place).filter((other) => keyOf(other) === keyOf(stream)).length}`;

	function showSheetStreams(streams) {
		streamsNow = streams;
		keyed($("sheet-stream"), streams.map((stream, place) => ({stream, place})), (item) => sheetKey(item.stream, item.place),
			(item) => ({node: make("option", {value: sheetKey(item.stream, item.place)})}),
			(entry, item) => put(entry.node, shortened(calledOf(item.stream), 80)));
		show($("sheet-form"), streams.length);
		show($("sheet-empty"), !streams.length);
	}

	/* ---- asking ---- */

	let lastAnswer = performance.now(), answered = false, failures = 0, refusal = "";
	let lastUptime = null, uptimeSince = performance.now();

	function showLink(tone, words) {
		mark($("link"), "data-tone", tone);
		put($("link"), words);
	}

	/* The HTTP thread of a daemon whose event loop hangs still answers, with the last status. */
	function noteUptime(status) {
		const uptime = number(status.uptime_s);
		if (uptime !== lastUptime)
			uptimeSince = performance.now();
		lastUptime = uptime;
		return uptime === null ? 0 : performance.now() - uptimeSince;
	}

	function showStatus(status) {
		const streams = list(status.streams).map(object);
		const still = noteUptime(status);
		if (failures)
			say("The daemon answers again.");
		answered = true;
		failures = 0;
		lastAnswer = performance.now();
		noteMoment(status);
		show($("gone"), still > STANDS_STILL);
		put($("gone"), still > STANDS_STILL ? `The daemon answers, but its event loop has not turned since ${duration(still / SECOND)} ago: the values below are old.` : "");
		showLink(still > STANDS_STILL ? "bad" : status.draining === true ? "warn" : "good", still > STANDS_STILL ? "not responding" :
			status.draining === true ? "draining" : "live");
		showHead(status, streams);
		showVerdict(status, streams);
		showStages(status);
		showMemory(status);
		showMachine(status);
		showAbout(status);
		showStreams(streams);
		showTrainers(streams);
		showSheetStreams(streams);
		if (sheetDue)
			askSheet();
		const now = drawCharts(status, streams);
		document.title = `${streams.length && now !== null ? `${short(now)} images/s · ` : ""}penstock`;
	}

	/* `refusal`: the daemon answers, but without a usable status. */
	function showGone() {
		const since = duration((performance.now() - lastAnswer) / SECOND);
		const old = answered ? " The values below are from before." : "";
		showLink("bad", `no answer for ${since}`);
		if (refusal)
			$("gone").replaceChildren(`The daemon has sent no status for ${since}: ${refusal}.${old}`);
		else
			$("gone").replaceChildren(`No answer for ${since}; `, make("code", {}, "penstock why"), ` tells how it ended.${old}`);
		show($("gone"), true);
		document.title = "no answer · penstock";
	}

	let latest = null;

	async function ask() {
		try {
			const answer = await fetch("status", {cache: "no-store", signal: AbortSignal.timeout(LIMIT)});
			refusal = answer.ok ? "" : `it answered ${answer.status}`;
			if (!answer.ok)
				throw new Error(refusal);
			refusal = "its answer is not JSON";
			const status = await answer.json();
			refusal = "";
			return object(status);
		} catch (error) {
			return null;
		}
	}

	async function turn() {
		const status = document.hidden && answered ? undefined : await ask();
		if (status) {
			latest = status;
			showStatus(status);
		} else if (status === null) {
			if (failures++ === 0)
				say("The daemon does not answer.");
			showGone();
			drawCharts(null, []);
		}
		setTimeout(turn, SECOND * (failures ? BACK_OFF[Math.min(failures, BACK_OFF.length) - 1] : 1));
	}

	/* Updates the seconds since the last answer between two requests. */
	setInterval(() => failures && showGone(), SECOND);


	function redraw() {
		const streams = list(latest && latest.streams).map(object);
		showStreams(streams);
		showTrainers(streams);
	}

	$("filter").addEventListener("input", redraw);
	$("filter-row").addEventListener("submit", (event) => event.preventDefault());
	$("sort").addEventListener("change", redraw);
	$("streams-more").addEventListener("click", () => {
		allStreams = !allStreams;
		redraw();
	});
	$("trainers-more").addEventListener("click", () => {
		allTrainers = !allTrainers;
		redraw();
	});
	$("sheet-form").addEventListener("submit", (event) => {
		event.preventDefault();
		askSheet();
	});
	$("sheet-auto").addEventListener("change", () => {
		clearInterval(sheetTimer);
		if ($("sheet-auto").checked) {
			askSheet();
			sheetTimer = setInterval(() => document.hidden || failures || askSheet(), SHEET_EVERY);
		}
	});
	$("sheet-stream").addEventListener("change", askSheet);
	for (const one of charts)
		drawChart(one, performance.now());
	turn();
})();
