package main

// start matches where a sentence begins.
const start = `(?:^|[.!?;:]["')]? |\n\n)`

// habits is the table: what is searched for, and what to write instead.
var habits = []habit{
	// The noun is not named.
	{
		name:    "those",
		pattern: `\bthose (that|who|whose|which|of|in|with|without|for|from|under|behind|at|on|to|by|beyond)\b`,
		instead: "name the noun: the requests that, the clients that",
	},
	{
		name:    "that of",
		pattern: `\b(that|those) of (the|a|an|its|their|his|our|each|every|all|one|another|what|who|this|such|any)\b`,
		instead: "repeat the noun: the limit of the rule",
	},
	{
		name:    "the one that",
		pattern: `\b(the|an?) ?ones? (that|which|who|whose)\b`,
		instead: "name the noun: the request that",
	},
	{
		name:    "who",
		pattern: `(` + start + `|\b(?:and|or|but|for|to|of|by|from|with|at|that|as|than|if|when|while|because|since|so|until|before|after|only|,) )who (is|are|was|has|have|had|asks?|comes?|came|does|wants?|takes?|gets?|waits?|writes?|knows?|sends?|uses?|runs?|can|may|must|needs?|leaves?|keeps?|holds?|makes?|pays?|reads?|calls?|gives?|goes|changes?|finds?|lacks?|decides?|misses|freed?s?|frees|already|first|wires?|picks?|locks?|freezes)\b`,
		except:  `\bwho [^.?]*\?|\bknow(s|n)? who\b|\b(says?|shows?|tells?|names?|see|sees|decides?|learns?|matters?) who\b|\bof who\b[^.]*\bis\b`,
		instead: "name the noun: the client, the caller",
	},
	{
		name:    "whoever",
		pattern: `\bwhoever\b`,
		instead: "name the noun: the client that, the caller that",
	},
	{
		name:    "what stands",
		pattern: `\bwhat (it |they )?(stands?|stood)\b|\bst(and|ands|anding|ood) (in )?(over|for)\b|\bst(and|ands|anding|ood) in\b`,
		instead: "name the thing: the fallback, the wrapped store, the default",
	},

	// The order of the sentence.
	{
		name:    "Of … first",
		pattern: start + `(?-i:Of) (a|an|the|all|those|these|what|two|three|several|some|it|them|him|one|many|both|its|such|each|every|\d+)\b`,
		except:  `\bof course\b`,
		instead: "begin with the subject",
	},
	{
		name:    "To a … that first",
		pattern: start + `to (a|an|the|one|those|whom|all|every|each|who|what) ([\w-]+ )?(that|which|who)\b`,
		instead: "begin with the subject",
	},

	// Functions and things that talk.
	{
		name:    "tell",
		pattern: `\b(tells?|told|telling)\b`,
		instead: "use the verb of the trade: reports, says in the field X, returns, distinguishes",
	},
	{
		name:    "meet",
		pattern: `\b(meets?|met|meeting)\b`,
		instead: "use the verb of the trade: matches, applies to, reaches, finds",
	},
	{
		name:    "know",
		pattern: `\b(knows|knew)\b`,
		instead: "use the verb of the trade: has, holds, imports, detects; or name the person",
	},
	{
		name:    "ask",
		pattern: `\b(asks?|asked|asking)\b`,
		instead: "use the verb of the trade: requests, calls, queries, decides",
		names:   true,
	},
	{
		name:    "stand",
		pattern: `\b(stands?|stood|standing)\b`,
		instead: "use the verb of the trade: is, wraps, holds, waits",
	},
	{
		name:    "say",
		pattern: `\b(function|method|package|store|script|limiter|server|guard|proxy|gate|page|error|answer|reply|decision|it|limit|state|value|handler|edge|test|file) (says?|said)\b`,
		instead: "use the verb of the trade: returns, reports, contains, sets",
	},

	// Old words and turns.
	{
		name:    "is no",
		pattern: `\b(is|are|was|were|be) no [a-z-]+`,
		except:  `\b(there|here) (is|are|was|were) no\b|\bthere (can|may|must|will|would|should|might) be no\b|\bno (longer|more|less|fewer|later|earlier|sooner|slower|faster|larger|smaller|higher|lower|better|worse|older|newer|shorter|other)\b`,
		instead: "is not a",
	},
	{
		name:    "anew",
		pattern: `\banew\b`,
		instead: "again",
	},
	{
		name:    ", for",
		pattern: `, for (it|they|he|she|these|there|nobody|who|otherwise|we|nothing) |, for (the|a|an|this|its|their|what|most|no) [\w-]+( [\w-]+)? (is|are|was|were|has|have|had|would|will|can|may|must|might|could|does|do|needs?|comes?|looks?|tries|takes?|makes?)\b`,
		except:  `, for (a|an|the) [\w-]+ (that|which|who)\b`,
		instead: ", because",
	},
	{
		name:    "alone",
		pattern: `\balone\b`,
		except:  `\b(leave|leaves|left|leaving|let) [\w' ]*alone\b`,
		instead: "only, by itself",
	},
	{
		name:    "but for",
		pattern: `\bbut for\b|\bsave for\b`,
		except:  `\bbut for (no|at|only|as long|up to)\b`,
		instead: "except, except for",
	},
	{
		name:    "as ever",
		pattern: `\bas ever\b`,
		instead: "as before",
	},
	{
		name:    "be it",
		pattern: `\bbe it\b|\bbe they\b`,
		instead: "whether … or; even",
	},

	// Retired words: one word, one meaning.
	{
		name:    "toll",
		pattern: `\btolls?\b`,
		instead: "prepaid bytes",
		names:   true,
	},
	{
		name:    "soft rule",
		pattern: `\bsoft\b`,
		instead: "advisory",
		folders: []string{"policy", "gate", "httplimit", "internal/file", "policyfile", "server", "docs", "bench", "checks", "examples", "README.md", "CHANGELOG.md"},
		names:   true,
	},
	{
		name:    "reading",
		pattern: `\breadings\b|\b(every|each|all|one|a|the|several|that|this) reading\b`,
		except:  `\b(the|a|this|that) reading of (the|a) (clock|time|page|document)\b`,
		instead: "path variant",
		names:   true,
	},
	{
		name:    "line of waiters",
		pattern: `\b(wait\w*|stand\w*|queued?|come\w*) in (a|the|one|its|their) lines?\b|\bwaiting lines?\b|\bline of (waiters|requests|callers)\b|\bin line\b`,
		instead: "waiting queue",
	},
	{
		name:    "pass",
		pattern: `\bpolicy pass\b|\bgate\.pass\b|\b(the|its|each|one|every|this) pass\b`,
		except:  `\bone pass (over|through)\b`,
		instead: "admission",
		folders: []string{"gate", "httplimit", "server"},
	},
	{
		name:    "stand-in",
		pattern: `\bstand-?ins?\b|\bstand in\b`,
		instead: "fallback",
		names:   true,
	},
	{
		name:    "place",
		pattern: `\bplaces?\b`,
		except:  `\b(in|in the first|takes?|taking|took|taken) place\b|\b(decimal|digits?) places?\b|\bin place of\b|\bplaces? (it|them|the|a|an|each)\b`,
		instead: "position (in a file), turn (in a queue), lease or unit in flight (of a concurrency limit)",
		names:   true,
	},
	{
		name:    "slot",
		pattern: `\bslots?\b`,
		instead: "entry; a slot is a hash slot of a Redis cluster",
		folders: []string{"memory", "internal/algo", "policy", "gate", "docs/adr/0001-entries-of-32-bytes.md", "docs/adr/0003-decisions-lock-one-entry.md"},
		names:   true,
	},
	{
		name:    "old names",
		pattern: `\balgo\.(ask|answer)\b|\brole ?soft\b|\bpolicy\.(met|question|response)\b|\bverdict\.met\b|\bgate\.pass\b`,
		instead: "see the glossary in docs/architecture.md",
	},
}

// exceptions are the places where a habit is right, each with the reason.
var exceptions = []exception{}
