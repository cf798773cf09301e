package spelling

import (
	"encoding/base64"
	"strings"
	"testing"
)

const (
	sha1Signature   = "AQoO45Y5y8B8uQ0pTyr2l2qnCqI"
	sha256Signature = "dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
)

// Ordinary values with dots keep their text, and are never refused. So are tokens whose services all read them in one way.
func TestDottedValuesKeepTheirText(t *testing.T) {
	encode := base64.RawURLEncoding.EncodeToString
	jwt := encode([]byte(`{"alg":"HS256"}`)) + "." + encode([]byte(`{"sub":"alice","n":12}`)) + "." + sha256Signature
	for _, value := range []string{
		"203.0.113.7, 198.51.100.1, 10.0.0.1, 192.168.100.200", "1.3.6.1.4.1.311.60.2.1.3.1.2.840.113549", "v1.22.333-rc.4+build.20260102.abcdef0", "2001:db8::1.2.3.4%eth0.100.200.300",
		"a.very-long-label-of-27-chars.example.com", "www.My-Long-Label-Of-Letters-27.example.com", "internal.abcdefghijklmnopqrstuvwxyza.example", "bucket.s3.eu-central-1.amazonaws.com.example.org",
		"john.averyveryverylonglastname@example.com", "John.Van-Der-Berg.Something@Mail.Example.com", "first.last+tag.of.some.length@sub.domain.example.co.uk",
		"org.springframework.AbstractSingletonBeanFactory.Name", "com.acme.shop.v2.MyVeryLongServiceClientNames.Get", "/shop.v1.Orders/CreateOrderWithManyItemsAtOnce.x.y",
		"Mozilla/5.0 (X11; Linux x86_64; rv:120.0) Gecko/20100101 Firefox/120.0", "app." + strings.Repeat("0a1b2c3d", 8) + ".min.js", "app." + strings.ToUpper(strings.Repeat("0a1b2c3d", 8)) + ".min.js", "key.7b52009b64fd0a2a49e6d8a939753077792b0554.txt",
		"550e8400-e29b-41d4-a716-446655440000.550e8400-e29b-41d4-a716-446655440001.node1", "tenant.0ujsswThIGTUYm2K8FjOOfXtY1I", "GA1.1.1234567890.1700000000", "fb.1.1596403881668.1116446470.extra.words", "A sentence. Another one. And a third one with 27 letters.",
		"....................................", ".a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t", "a..b..c..d..e..f..g..h..i..j..k..l..m",
		// Base64 with dots that is not a signature.
		encode([]byte("some plain text")) + "." + encode([]byte("and some more text")) + "." + encode([]byte("and the last")), "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs", "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",
		// Tokens as services write them.
		jwt, "e30.eyJzdWIiOiJhbGljZSIsInRpZXIiOiJnb2xkIn0.c2ln", encode([]byte(`{"alg":"HS256"}`)) + "." + sha1Signature + "." + sha256Signature, "eyJ1c2VyIjoiYW5uIn0.ZyXwVu." + sha1Signature, ".eJyrVipKLS5RslJQSsxVqgUAKBwEsA.ZyXwVu." + sha1Signature, "ImV2ZSI.ZyXwVu." + sha256Signature,
		"ann.smith@example.com." + sha1Signature, "s:" + jwt + "." + sha256Signature, "s:john.doe." + sha256Signature, "v4.local." + sha256Signature + ".footer", "v2.public." + sha1Signature + "." + sha256Signature,
		encode([]byte(`{"alg":"RSA-OAEP","enc":"A256GCM"}`)) + "." + encode([]byte(strings.Repeat("a key!\xff\xf1\x02", 29)[:256])) + ".48V1_ALb6US04U3b.5eym8TW_c8SuK0ltJ3rpYIzOeDQz7TALvtu6UG9oMo4vpzs9tX_EFShS8iB7j6ji.XFBoMYUZodetZdvTiFvSkQ",
	} {
		if clean, certain := Token(value); clean != value || !certain {
			t.Errorf("%q becomes %q, %v", value, clean, certain)
		}
	}
	// Services that read the middle part, or all behind the first dot, read the same signature.
	for value, want := range map[string]string{"ann.sixteenletters1a." + sha1Signature: "ann.sixteenletters1a" + sha1Signature} {
		if clean, certain := Token(value); clean != want || !certain {
			t.Errorf("%q becomes %q, %v", value, clean, certain)
		}
	}
}

// A signed token has one key however dots are added to it, or is refused.
func TestDotsInTokens(t *testing.T) {
	for _, token := range []string{
		"ImV2ZSI." + sha1Signature, "ImV2ZSI." + sha256Signature, "ImV2ZSI.ZyXwVu." + sha1Signature, "eyJ1c2VyIjoiYW5uIn0." + sha1Signature, "eyJ1c2VyIjoiYW5uIn0.ZyXwVu." + sha1Signature,
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0." + sha256Signature, "ann." + strings.ReplaceAll(sha256Signature, "_", "-") + strings.Repeat("Zz9", 7), ".eJyrVipKLS5RslJQSsxVqgUAKBwEsA.ZyXwVu." + sha1Signature,
	} {
		plain, certain := Token(token)
		if plain != token || !certain {
			t.Fatalf("%q becomes %q, %v", token, plain, certain)
		}
		dot := strings.LastIndexByte(token, '.') + 1
		head, tail := token[:dot], token[dot:]
		for _, spelled := range []string{
			token + "=x.y", token + ".y", token + ".", token + "..", token + ".=", token + "!.y!", token + "=.=", token + ".x.y", token + ".x.y.z", token + "." + sha1Signature, token + "." + sha256Signature, token + ".AAAA", token + ".AAAA.BBBB",
			head + tail[:5] + "." + tail[5:], head + tail[:5] + ".." + tail[5:], head + "." + tail, head + ".." + tail, head + tail[:3] + "." + tail[3:9] + "." + tail[9:] + "!", head + tail[:9] + "!." + tail[9:], head + tail[:9] + "=." + tail[9:],
			head + tail[:5] + "." + tail[5:] + "=x.y", head + tail[:5] + "." + tail[5:] + "=x", head + tail[:len(tail)-1] + "." + tail[len(tail)-1:], head + tail[:5] + "!" + tail[5:] + ".y", head + tail[:5] + "=" + tail[5:] + ".y", head + tail + ".!" + tail,
		} {
			if clean, certain := Token(spelled); certain && clean != plain {
				t.Errorf("%q is another key than %q: %q", spelled, token, clean)
			}
		}
	}
	// A service that ends at padding ignores any number of bytes behind it.
	for _, token := range []string{"ImV2ZSI." + sha1Signature, "ImV2ZSI.ZyXwVu." + sha1Signature, "eyJ1IjoiZXZlIn0.awXG7A." + sha1Signature} {
		for n := range 140 {
			for _, sep := range []string{"=", "==", "=.", ".", ".=", "=x.y"} {
				if clean, certain := Token(token + sep + strings.Repeat("aB3", n)[:n]); certain && clean != token {
					t.Errorf("%d bytes behind %q and %q have another key: %q", n, token, sep, clean)
				}
			}
		}
	}
	const fernet = "gAAAAABnQ0v9yq1mW2cH6DaXzQ7s5bT9uRfE3yAdozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8Q"
	for _, spelled := range []string{fernet + ".", "." + fernet, fernet[:3] + "." + fernet[3:], fernet[:40] + ".!." + fernet[40:], fernet + "==.", fernet + "==.x.y", fernet + "=.="} {
		if clean, certain := Token(spelled); certain && clean != fernet {
			t.Errorf("%q is another key: %q", spelled, clean)
		}
	}
}
