// A program with the client that oapi-codegen generates from the description of the API. It makes every call, and prints
// what is not as it should be. Its test generates client.gen.go beside a copy of this file.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
)

var ctx = context.Background()

// want prints what is not as it should be, and ends the program.
func want(ok bool, what string, got any) {
	if !ok {
		fmt.Printf("%s: %+v\n", what, got)
		os.Exit(1)
	}
}

// done ends the program if a call was not made, or its answer could not be read.
func done[T any](v T, err error) T {
	want(err == nil, "a call failed", err)
	return v
}

// client returns a client with a token, empty for none, and further headers.
func client(token string, header ...string) *ClientWithResponses {
	return done(NewClientWithResponses(os.Getenv("URL"), WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		return nil
	})))
}

func ptr[T any](v T) *T { return &v }

// key returns the values of a key.
func key(values ...string) *KeyValues {
	var k KeyValues
	_ = done(0, k.FromKeyValues1(values))
	return &k
}

// ask returns the question of one request.
func ask(r DecisionRequest) Questions {
	var q Questions
	_ = done(0, q.FromDecisionRequest(r))
	return q
}

func main() {
	caller, operator := client(os.Getenv("TOKEN")), client(os.Getenv("ADMIN_TOKEN"))
	switch os.Args[1] {
	case "calls":
		decisions(caller)
		reservations(caller)
		leases(caller, operator)
		operations(operator)
		refusals(caller, operator)
		open(caller)
	case "without-store":
		withoutStore(caller, operator, os.Args[2])
	}
}

func decisions(c *ClientWithResponses) {
	login := DecisionRequest{Method: ptr("POST"), Path: ptr("/login"), ClientIp: ptr("192.0.2.1"), Headers: &map[string]Texts{}}
	var user Texts
	_ = done(0, user.FromTexts0("ann"))
	(*login.Headers)["X-User"] = user
	for i := range 2 {
		r := done(c.CheckWithResponse(ctx, &CheckParams{}, ask(login)))
		want(r.JSON200 != nil, "a check", r.HTTPResponse.Status)
		d := done(r.JSON200.AsDecision())
		want(d.Allowed && d.Action == DecisionActionAllow && *d.Remaining == int64(1-i) && d.Limits[0].Cost == 1, "a check", d)
	}
	denied := done(c.CheckWithResponse(ctx, &CheckParams{Status: ptr(Status(429)), IdempotencyKey: ptr("once")}, ask(login)))
	want(denied.StatusCode() == 429 && !denied.JSON4XX.Allowed && *denied.Headers4XX.RetryAfter > 0 && denied.JSON4XX.Answer.Status == 429, "a denial", denied)
	again := done(c.CheckWithResponse(ctx, &CheckParams{Status: ptr(Status(429)), IdempotencyKey: ptr("once")}, ask(login)))
	want(*again.Headers4XX.IdempotencyReplayed == "true", "a repeated call", again)
	want(done(done(c.PeekWithResponse(ctx, nil, ask(DecisionRequest{ClientIp: ptr("192.0.2.8")}))).JSON200.AsDecision()).Allowed, "a peek", nil)
	peek := done(c.PeekWithResponse(ctx, &PeekParams{Status: ptr(Status(503))}, ask(login)))
	want(peek.StatusCode() == 503 && *peek.JSON5XX.Reason == "limited", "a peek", peek)
	for i, action := range []DecisionAction{DecisionActionAllow, DecisionActionMark} {
		r := done(c.CheckWithResponse(ctx, nil, ask(DecisionRequest{Path: ptr("/search"), ClientIp: ptr("192.0.2.1")})))
		d := done(r.JSON200.AsDecision())
		want(d.Action == action && (i == 0 || (*d.Mark.RequestHeader)["Sluice-Marked"] == "search"), "a mark", d)
	}
	var batch Questions
	_ = done(0, batch.FromBatch(Batch{Requests: []DecisionRequest{login, {Rule: ptr("no such rule")}, {Rule: ptr("login"), Key: key("192.0.2.9"), Cost: ptr(int64(2))}}}))
	answers := done(done(c.CheckWithResponse(ctx, nil, batch)).JSON200.AsAnswers()).Answers
	want(len(answers) == 3 && !answers[0].Decision.Allowed && *answers[1].Problem.Field == "rule" && answers[2].Decision.Allowed, "a batch", answers)
}

func reservations(c *ClientWithResponses) {
	reserve := func() *ReserveResponse {
		r := done(c.ReserveWithResponse(ctx, nil, Reservation{Rule: ptr("units"), Cost: ptr(int64(40)), TtlMs: ptr(int64(60_000))}))
		want(r.JSON200 != nil && r.JSON200.Token != nil && *r.JSON200.ExpiresInMs == 60_000, "a reservation", r)
		return r
	}
	settled := done(c.SettleWithResponse(ctx, Settlement{Token: *reserve().JSON200.Token, Cost: 7}))
	want(settled.JSON200.Charges == 1, "a settlement", settled)
	again := done(c.SettleWithResponse(ctx, Settlement{Token: "used", Cost: 7}))
	want(again.StatusCode() == 404 && *again.ApplicationproblemJSON4XX.Field == "token", "no token", again)
	canceled := done(c.CancelWithResponse(ctx, Cancellation{Token: *reserve().JSON200.Token}))
	want(canceled.JSON200.Charges == 1, "a cancellation", canceled)
	want(done(c.CancelWithResponse(ctx, Cancellation{Token: "used"})).StatusCode() == 404, "no token", nil)
	var work Questions
	_ = done(0, work.FromDecisionRequest(DecisionRequest{Rule: ptr("units"), Cost: ptr(int64(2))}))
	debited := done(c.DebitWithResponse(ctx, nil, work))
	want(debited.JSON200 != nil, "a debit", debited)
	_ = done(0, work.FromDecisionRequest(DecisionRequest{Path: ptr("/units")}))
	undirected := done(c.DebitWithResponse(ctx, nil, work))
	want(undirected.StatusCode() == 400 && *undirected.ApplicationproblemJSON4XX.Field == "rule", "a debit of no rule", undirected)
	usage := done(c.UsageWithResponse(ctx, &UsageParams{Rule: "units"}))
	want(usage.JSON200 != nil && *usage.JSON200.Limits[0].Used == 9, "what is used", usage)
	denied := done(c.ReserveWithResponse(ctx, &ReserveParams{Status: ptr(Status(429))}, Reservation{Rule: ptr("units"), Cost: ptr(int64(1000))}))
	want(denied.StatusCode() == 429 && denied.JSON4XX.Token == nil, "a denied reservation", denied)
}

func leases(c, operator *ClientWithResponses) {
	job := DecisionRequest{Rule: ptr("jobs")}
	a := done(c.AcquireWithResponse(ctx, nil, job))
	want(a.JSON200 != nil && a.JSON200.Allowed, "a lease", a)
	token := Cancellation{Token: *a.JSON200.Token}
	denied := done(c.AcquireWithResponse(ctx, &AcquireParams{Status: ptr(Status(429))}, job))
	want(denied.StatusCode() == 429, "a second lease", denied)
	renewed := done(c.RenewWithResponse(ctx, token))
	want(renewed.JSON200.ExpiresInMs > 0 && renewed.JSON200.DelayMs == 0, "a renewal", renewed)
	want(done(c.ReleaseWithResponse(ctx, token)).JSON200.Charges == 1, "a release", nil)
	want(done(c.ReleaseWithResponse(ctx, token)).StatusCode() == 404, "a second release", nil)
	want(done(operator.ResetWithResponse(ctx, KeyToReset{Rule: job.Rule})).JSON200.Rules[0] == "jobs", "a reset", nil)
	units := done(c.ReserveWithResponse(ctx, nil, Reservation{Rule: ptr("units")}))
	want(done(c.RenewWithResponse(ctx, Cancellation{Token: *units.JSON200.Token})).StatusCode() == 409, "nothing to renew", nil)
	nothing := done(c.AcquireWithResponse(ctx, nil, DecisionRequest{Rule: ptr("units")}))
	want(nothing.StatusCode() == 409 && nothing.ApplicationproblemJSON4XX.Title == "Nothing to hold", "nothing to hold", nothing)
}

func operations(c *ClientWithResponses) {
	banned := done(c.BanWithResponse(ctx, NewBan{Rule: "login", Key: key("192.0.2.7"), ForMs: 3_600_000}))
	want(banned.JSON200.ForMs == 3_600_000, "a ban", banned)
	bans := done(c.ListBansWithResponse(ctx, &ListBansParams{Most: ptr(int64(1000))}))
	want(len(bans.JSON200.Bans) == 1 && *bans.JSON200.Bans[0].ByHand && bans.JSON200.Bans[0].LeftMs > 0, "the bans", bans)
	want(done(c.LiftBanWithResponse(ctx, KeyOfRule{Rule: "login", Key: key("192.0.2.7")})).JSON200.Lifted, "a ban that ends", nil)
	set := func(body string) int {
		return done(c.SetOverridesWithBodyWithResponse(ctx, nil, "application/json", strings.NewReader(body))).StatusCode()
	}
	want(set(`{"rule": "login", "key": ["192.0.2.8"], "limit": {"rate": "9/d"}, "for_ms": 60000, "note": "a test"}`) == 200, "an override", nil)
	want(set(`{"overrides": [{"rule": "login", "key": ["192.0.2.9"], "deny": true}]}`) == 200, "a batch of overrides", nil)
	want(set(`{"rule": "login", "key": ["192.0.2.8"]}`) == 400, "an override without numbers", nil)
	granted := done(c.GrantWithResponse(ctx, nil, UnitsToGrant{Rule: "units", Units: 1, Note: ptr("a test")}))
	want(granted.JSON200 != nil && granted.JSON200.Allowed, "units that come back", granted)
	want(done(c.GrantWithResponse(ctx, nil, UnitsToGrant{Rule: "jobs", Units: 1})).StatusCode() == 409, "units of a rule that takes none back", nil)
	ahead := done(c.GrantWithResponse(ctx, nil, UnitsToGrant{Rule: "units", Units: 5, Ahead: ptr(true)}))
	want(ahead.JSON200 != nil && ahead.JSON200.Ahead != nil && ahead.JSON200.Ahead.Remaining == 5, "units ahead", ahead)
	withdrawn := done(c.WithdrawGrantWithResponse(ctx, nil, KeyOfRule{Rule: "units"}))
	want(withdrawn.JSON200 != nil && withdrawn.JSON200.Ahead == nil, "units ahead that are taken back", withdrawn)
	found := done(done(c.ListOverridesWithResponse(ctx, &ListOverridesParams{Rule: ptr("login")})).JSON200.AsOverrides())
	want(len(found.Overrides) == 2, "the overrides", found)
	gone := done(c.UnsetOverridesWithBodyWithResponse(ctx, nil, "application/json", strings.NewReader(`{"rule": "login", "key": ["192.0.2.8"]}`)))
	want(done(gone.JSON200.AsOverrideChanged()).Existed, "an override that is removed", gone)
	keys := done(c.ListKeysWithResponse(ctx, &ListKeysParams{Rule: ptr("login")}))
	want(len(keys.JSON200.Keys) > 0 && keys.JSON200.Keys[0].Now.Capacity == 2, "the keys", keys)
	var hot Questions
	_ = done(0, hot.FromBatch(Batch{Requests: slices.Repeat([]DecisionRequest{{Path: ptr("/hot")}}, 50)}))
	var hybrid *ListHybridResponse
	for range 200 { // until the key is hot
		_ = done(c.CheckWithResponse(ctx, nil, hot))
		if hybrid = done(c.ListHybridWithResponse(ctx, nil)); len(hybrid.JSON200.Keys) > 0 {
			break
		}
	}
	want(len(hybrid.JSON200.Keys) == 1 && hybrid.JSON200.Limits[0].Rule == "hot", "the hybrid limits", hybrid)
	want(done(c.ListPressuresWithResponse(ctx)).JSON200.Pressures["login"] >= 0, "the pressures", nil)
	want(done(c.ReadPressureWithResponse(ctx, "login")).JSON200.Rule == "login", "a pressure", nil)
	want(done(c.ReadPressureWithResponse(ctx, "other")).StatusCode() == 404, "the pressure on no rule", nil)
	want((*done(c.DescribeWithResponse(ctx)).YAML200)["openapi"] == "3.1.0", "the description", nil)
	want(strings.Contains(string(done(c.IndexWithResponse(ctx)).Body), "/v1/check"), "the paths", nil)
}

// refusals are the kinds of problems.
func refusals(c, operator *ClientWithResponses) {
	all := DecisionRequest{ClientIp: ptr("192.0.2.50")}
	status := func(r *CheckResponse, status int, title string) {
		p := r.ApplicationproblemJSON4XX
		want(r.StatusCode() == status && p != nil && p.Title == title && p.Status == status, title, r.HTTPResponse.Status)
	}
	status(done(c.CheckWithResponse(ctx, nil, ask(DecisionRequest{ClientIp: ptr("x")}))), 400, "Invalid request")
	status(done(client("").CheckWithResponse(ctx, nil, ask(all))), 401, "Not authorized")
	status(done(client("wrong").CheckWithResponse(ctx, nil, ask(all))), 401, "Not authorized")
	status(done(client(os.Getenv("TOKEN"), "Sec-Fetch-Site", "cross-site").CheckWithResponse(ctx, nil, ask(all))), 403, "Foreign origin")
	status(done(c.CheckWithBodyWithResponse(ctx, nil, "application/json", strings.NewReader(`{"path": "/`+strings.Repeat("x", 2<<20)+`"}`))), 413, "Request too large")
	status(done(c.CheckWithBodyWithResponse(ctx, nil, "text/plain", strings.NewReader("{}"))), 415, "Not JSON")
	status(done(c.CheckWithResponse(ctx, &CheckParams{Status: ptr(Status(429)), IdempotencyKey: ptr("once")}, ask(all))), 422, "Another request")
	want(done(c.ResetWithResponse(ctx, KeyToReset{Rule: ptr("login")})).StatusCode() == 403, "a call for operators", nil)
	want(done(operator.BanWithResponse(ctx, NewBan{Rule: "units", ForMs: 1})).StatusCode() == 409, "a rule without bans", nil)
	want(done(operator.ListBansWithResponse(ctx, &ListBansParams{From: ptr("nowhere")})).StatusCode() == 400, "no page", nil)
	want(done(operator.ListKeysWithResponse(ctx, &ListKeysParams{Most: ptr(int64(1001))})).StatusCode() == 400, "too many keys", nil)
	want(done(operator.ListHybridWithResponse(ctx, &ListHybridParams{Rule: ptr("other")})).StatusCode() == 400, "no rule", nil)
}

// open opens a reservation, and prints its token.
func open(c *ClientWithResponses) {
	fmt.Println(*done(c.ReserveWithResponse(ctx, nil, Reservation{Rule: ptr("units")})).JSON200.Token)
}

// withoutStore makes the calls that need the store, while it does not answer.
func withoutStore(c, operator *ClientWithResponses, reservation string) {
	d := done(done(c.CheckWithResponse(ctx, nil, ask(DecisionRequest{Rule: ptr("units")}))).JSON200.AsDecision())
	want(*d.Degraded, "a check", d)
	for what, p := range map[string]*Problem{
		"settle": done(c.SettleWithResponse(ctx, Settlement{Token: reservation, Cost: 1})).ApplicationproblemJSON5XX,
		"reset":  done(operator.ResetWithResponse(ctx, KeyToReset{Rule: ptr("units")})).ApplicationproblemJSON5XX,
		"ban":    done(operator.BanWithResponse(ctx, NewBan{Rule: "login", Key: key("192.0.2.7"), ForMs: 1})).ApplicationproblemJSON5XX,
		"lift":   done(operator.LiftBanWithResponse(ctx, KeyOfRule{Rule: "login", Key: key("192.0.2.7")})).ApplicationproblemJSON5XX,
		"grant":  done(operator.GrantWithResponse(ctx, nil, UnitsToGrant{Rule: "units", Units: 1})).ApplicationproblemJSON5XX,
		"ahead":  done(operator.GrantWithResponse(ctx, nil, UnitsToGrant{Rule: "units", Units: 1, Ahead: ptr(true)})).ApplicationproblemJSON5XX,
		"list":   done(operator.ListBansWithResponse(ctx, nil)).ApplicationproblemJSON5XX,
	} {
		want(p != nil && p.Status == 503 && p.Remedy != nil, what, p)
	}
	want(len(done(operator.ListKeysWithResponse(ctx, nil)).JSON200.Keys) > 0, "the keys", nil)
}
