package main

// ofRequests break what docs/failure-modes.md promises of requests: addresses, keys, paths, headers and refusals.
var ofRequests = []mutation{
	{
		"headers count only from trusted proxies", "httplimit/clientip.go",
		"		return p.trusts(peer)", "		return len(p.trusted) > 0 || p.trusts(peer)",
		"httplimit TestForwardedForSpoofing",
	},
	{
		"a list counts from the right", "httplimit/clientip.go",
		"		if !addr.IsValid() || !p.trusts(addr) {", "		if !addr.IsValid() {",
		"httplimit TestForwardedForSpoofing",
	},
	{
		"a trusted proxy that wrote no address leaves none", "httplimit/chain.go",
		"	if s == \"\" || len(s) > longestNode {", "	if s == \"unknown\" {\n		return netip.IPv4Unspecified(), \"\"\n	}\n	if s == \"\" || len(s) > longestNode {",
		"httplimit TestClientIP",
	},
	{
		"only the end of a list is read, to a number of proxies", "httplimit/clientip.go",
		"	for range c.hops {", "	for range 1 << 30 {",
		"httplimit TestForwardedForOfAnyLength",
	},
	{
		"only the end of a list is read, to a number of empty elements", "httplimit/chain.go",
		"	mostEmpty = 16", "	mostEmpty = 1 << 30",
		"httplimit TestForwardedForOfAnyLength",
	},
	{
		"a trusted range with all of IPv4 is an error", "httplimit/clientip.go",
		"		if p.Bits() < 96 {", "		if p.Bits() < 90 {",
		"httplimit TestTrustedProxyRanges",
	},
	{
		"addresses of one /64 have one key", "httplimit/clientip.go",
		"	p, err := a.Prefix(bits)", "	p, err := a.Prefix(min(bits+1, 128))",
		"httplimit TestIPv6Rotation",
	},
	{
		"clients at a socket choose no address", "httplimit/clientip.go",
		"	return p.unix && isUnix(remote)", "	return isUnix(remote)",
		"httplimit TestClientIP",
	},
	{
		"white space around a header over HTTP/2 is refused", "httplimit/ambiguous.go",
		"(isSpace(v[0]) || isSpace(v[len(v)-1]))", "isSpace(v[0])",
		"httplimit TestSpaceAroundValues",
	},
	{
		"a header host that differs from :authority is refused", "httplimit/ambiguous.go",
		"			return errHosts // beside :authority", "			return nil",
		"httplimit TestHostIsOneValue",
	},
	{
		"a target without a path is refused", "httplimit/ambiguous.go",
		"	if r.URL != nil && (r.URL.Opaque != \"\" || ", "	if r.URL != nil && (",
		"httplimit TestTargetsWithoutPath",
	},
	{
		"the host is one value, whatever its spelling", "policy/clean.go",
		"return refuse(\"host\", spelling.CheckHost(host)) }", "return nil }",
		"policy TestCheckHost",
	},
	{
		"methods in lower case are refused", "policy/clean.go",
		"return refuse(\"method\", spelling.CheckMethod(method)) }", "return nil }",
		"policy TestCheckMethod",
	},
	{
		"encoded control characters in a path are refused", "policy/clean.go",
		"	if (paths.Form{}).HasControl(escaped) {", "	if (paths.Form{}).HasControl(escaped) && len(escaped) > 100 {",
		"httplimit TestAmbiguousRequests",
	},
	{
		"a path with more than 64 variants is refused", "policy/internal/paths/variant.go",
		"	mostVariants  = 64", "	mostVariants  = 65",
		"policy/internal/paths TestPathsWithTooManyVariants",
	},
	{
		"control characters are found also encoded twice", "policy/internal/paths/variant.go",
		"			for strings.HasPrefix(escaped[i+1:], \"25\") {", "			for false {",
		"policy/internal/paths TestControlCharactersInPaths",
	},
	{
		"an encoded slash has both variants", "policy/internal/paths/variant.go",
		"			case '/':\n				has.slash = true", "			case '/':",
		"policy/internal/paths TestPathsHaveAVariantForEachService",
	},
	{
		"an exception holds only with and without empty segments", "policy/internal/paths/variant.go",
		"		v.one(p.join(p.pieces, true))\n		return", "		return",
		"policy/internal/paths TestPathsHaveAVariantForEachService",
	},
	{
		"default deny wants a rule for a path with empty segments", "policy/decide.go",
		"(len(merged) == len(a.Path) || r.match.matchesPath(a.Path))", "true",
		"policy TestExceptionsHoldByAllPathVariants",
	},
	{
		"every path variant decides", "policy/internal/paths/variant.go",
		"	if has.twice {", "	if false {",
		"httplimit TestRulesMatchWhatReachesTheirHandlers",
	},
	{
		"a cookie within another one makes the value unclear", "httplimit/cookie.go",
		"			t.addHidden(piece, name)", "",
		"httplimit TestHiddenCookies",
	},
	{
		"clients cannot mark, in any spelling", "internal/spelling/header.go",
		"	return '-'\n", "	return c\n",
		"httplimit TestClientsCannotMark",
	},
	{
		"clients cannot remove a mark by Connection", "httplimit/reserved.go",
		"option != \"\" && !own.holds(option) {", "option != \"\" {",
		"httplimit TestClientsCannotMark",
	},
	{
		"texts of limits for headers are bounded", "httplimit/quota.go",
		"c.count.Add(1) > mostQuotas {", "c.count.Add(1) > 1<<40 {",
		"httplimit TestQuotasAreBounded",
	},
	{
		"an answer that breaks off gives nothing back", "policy/model.go",
		"		return max(taken, units)", "		return units",
		"server/internal/app TestBudgetIsExact",
	},
	{
		"an answer without usage stays charged", "policy/model.go",
		"	case o.Usage == nil:\n		return taken", "	case o.Usage == nil:\n		return 1",
		"server/internal/app TestBudgetIsExact",
	},
	{
		"a request takes the most output that it allows", "policy/model.go",
		"Output: m.Output}\n", "Output: 1}\n",
		"server/internal/app TestBudgetIsExact",
	},
	{
		"a hidden model costs the highest price", "policy/model.go",
		"		case unread:\n", "		case unread && i == 0:\n",
		"policy TestModelsReserveTheMostAndSettleTheUsage",
	},
	{
		"a model without a price is refused", "policy/model.go",
		"	case !found:\n", "	case !found && false:\n",
		"policy TestModelsWithoutAPriceAreRefused",
	},
	{
		"rules match a request whose model is uncertain", "policy/model.go",
		"	case err != nil, m.Unread:\n		r.Count = CountUnclear", "	case err != nil, m.Unread:",
		"policy TestAttributeOfTheModel",
	},
	{
		"a body that could understate its cost is refused", "httplimit/modelrequest.go",
		"	case k.format != modelusage.Unknown || errors.Is(err, modelusage.ErrAmbiguous):", "	case errors.Is(err, modelusage.ErrAmbiguous) && k.format == modelusage.Unknown:",
		"httplimit TestModelRequests",
	},
	{
		"a body in another character set is refused", "httplimit/modelrequest.go",
		"	if !isUTF8(r.Header[\"Content-Type\"]) {", "	if false {",
		"httplimit TestModelRequests",
	},
	{
		"a usage that comes after the answer needs a bound", "internal/modelusage/request.go",
		"	if background && r.MaxOutput < 0 {", "	if false {",
		"internal/modelusage TestReadRequestRefuses",
	},
	{
		"bodies that rules have read ahead are bounded", "httplimit/modelrequest.go",
		"		return false\n	}\n	r.room.Take(peer, int(n))", "	}\n	r.room.Take(peer, int(n))",
		"httplimit TestBodiesReadAheadAreBounded",
	},
	{
		"a path with two models is refused", "httplimit/modelrequest.go",
		"		case modelName(modelusage.ModelOfPath(plain)) != modelName(modelusage.ModelOfPath(at)):", "		case false:",
		"httplimit TestModelsOfPaths",
	},
	{
		"reasoning that only the total has is output", "internal/modelusage/usage.go",
		"		u.Output += rest", "		u.Output += 0 * rest",
		"internal/modelusage TestScannerFindsWhatTheOracleFinds",
	},
	{
		"an answer that Cloudflare lost stays charged", "policy/model.go",
		"	case 502, 504, 520, 524:", "	case 502, 504:",
		"policy TestModelsReserveTheMostAndSettleTheUsage",
	},
	{
		"a list of other models has the highest price", "httplimit/modelrequest.go",
		"request.MaxOutput, request.Unsure", "request.MaxOutput, false",
		"httplimit TestModelsOfLists",
	},
	{
		"a member that replaces another one is refused", "internal/modelusage/request.go",
		"	if err := checkExtra(body, extra); err != nil {", "	if err := checkExtra(body, extra); err != nil && false {",
		"internal/modelusage TestReadRequestRefuses",
	},
	{
		"a stream without usage costs its events", "httplimit/modelanswer.go",
		"u.Output = max(u.Output, a.scanner.Events())", "u.Output = max(u.Output, 0*a.scanner.Events())",
		"httplimit TestStreamsWithoutUsageCostTheirEvents",
	},
	{
		"a path with two formats is refused", "httplimit/modelrequest.go",
		"		case other != f:", "		case false:",
		"httplimit TestModelRequests",
	},
	{
		"an answer is read to its end without its client", "server/internal/edge/proxy/answer.go",
		"	if !a.pending.Reads() && (", "	if (",
		"server/internal/app TestLeavingCancels",
	},
	{
		"a request ends with its client if it should", "server/internal/edge/proxy/abandoned.go",
		"	case !p.sent || p.cancels:", "	case !p.sent:",
		"server/internal/app TestLeavingCancels",
	},
}
