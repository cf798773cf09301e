package decisions

import (
	"math/big"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// TestScriptsMultiplyExactly: what the scripts multiply and divide is exact, in doubles.
func TestScriptsMultiplyExactly(t *testing.T) {
	t.Parallel()
	text := ""
	for _, name := range []string{"prelude", "product"} {
		fragment, err := os.ReadFile("../../redisstore/scripts/" + name + ".lua")
		if err != nil {
			t.Fatal(err)
		}
		text += string(fragment)
	}
	const (
		most  = 1 << 53
		cases = 1000
	)
	source := text + `
		local out = {}
		for i = 1, #ARGV, 3 do
			local a, b, c = tonumber(ARGV[i]), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
			local q, r = muldiv(a, b, c)
			out[#out + 1] = string.format('%.0f %.0f %s', q, r, tostring(less(a, b, c, b)))
		end
		return out`
	a := newArena(t)
	rnd := rand.New(rand.NewPCG(1, 1))
	number := func() int64 {
		switch n := rnd.Int64N(1 + most>>rnd.IntN(53)); rnd.IntN(4) {
		case 0:
			return most - min(most, n)
		case 1:
			return 1<<rnd.IntN(54) - rnd.Int64N(2)
		default:
			return n
		}
	}
	for range 30 {
		args, want := []string{"EVAL", source, "0"}, make([]string, 0, cases)
		for range cases {
			x, y, by := number(), number(), max(1, number())
			if product := new(big.Int).Mul(big.NewInt(x), big.NewInt(y)); rnd.IntN(2) == 0 {
				// A quotient near the largest, or near a whole number.
				q := max(1, most-rnd.Int64N(4)*rnd.Int64N(most/4))
				by = max(1, min(most, product.Quo(product, big.NewInt(q)).Int64()+rnd.Int64N(3)-1))
			}
			q, r := new(big.Int).QuoRem(new(big.Int).Mul(big.NewInt(x), big.NewInt(y)), big.NewInt(by), new(big.Int))
			if q.Cmp(big.NewInt(most)) >= 0 {
				q, r = big.NewInt(most), new(big.Int)
			}
			want = append(want, q.String()+" "+r.String()+" "+strconv.FormatBool(y > 0 && x < by))
			for _, n := range [3]int64{x, y, by} {
				args = append(args, strconv.FormatInt(n, 10))
			}
		}
		reply, err := a.conn.Do(t.Context(), args...)
		got, ok := reply.([]any)
		if err != nil || !ok || len(got) != cases {
			t.Fatalf("the script replied %v, %v", reply, err)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("%v: %v, want %v", args[3+3*i:6+3*i], got[i], want[i])
			}
		}
	}
}
