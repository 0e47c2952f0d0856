// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package selfsigned

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"
)

// TestLife goes through thirty years, in short steps after each change of the authority,
// and is an API server at every step: it trusts what it was told a step before, and must
// trust what is served.
func TestLife(t *testing.T) {
	const name, long, short = "webhook.ns.svc", 24 * time.Hour, 20 * time.Minute
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var s State
	var before []byte // what the API server knows
	authorities, certificates, hasten := 0, 0, 0
	for end := now.Add(30 * 365 * 24 * time.Hour); now.Before(end); now = now.Add(long) {
		if hasten--; hasten > 0 {
			now = now.Add(short - long)
		}
		next, err := s.Next(now, name)
		if err != nil {
			t.Fatal(err)
		}
		if string(next.AuthorityKey) != string(s.AuthorityKey) {
			authorities++
			hasten = 10
		}
		if string(next.Certificate) != string(s.Certificate) {
			certificates++
		}
		if before == nil {
			before = next.Authorities
		}
		pair, err := tls.X509KeyPair(next.Certificate, next.Key)
		if err != nil {
			t.Fatal(err)
		}
		if !next.Equal(s) { // trust is costly to check, and changes with the state only
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(before)
			if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, DNSName: name}); err != nil {
				t.Fatalf("at %v: %v", now, err)
			}
		}
		if left := pair.Leaf.NotAfter.Sub(now); left < CertificateLife/3-2*long {
			t.Fatalf("at %v: the certificate has %v left", now, left)
		}
		if n := len(next.authorities(now)); n > 2 {
			t.Fatalf("at %v: %d authorities are trusted", now, n)
		}
		before, s = s.Authorities, next
		if before == nil {
			before = s.Authorities
		}
	}
	// 30 years, by 2/3 of 10 and of 90 days; one more certificate for each new authority.
	if authorities != 5 || certificates < 180 || certificates > 190 {
		t.Errorf("%d authorities, %d certificates", authorities, certificates)
	}
}

// TestBroken: whatever is in the Secret, what comes of it serves.
func TestBroken(t *testing.T) {
	now := time.Now()
	good, err := State{}.Next(now, "a.b.svc")
	if err != nil {
		t.Fatal(err)
	}
	other, err := State{}.Next(now, "a.b.svc")
	if err != nil {
		t.Fatal(err)
	}
	for what, s := range map[string]State{
		"another name":              good,
		"nothing":                   {},
		"no PEM":                    {[]byte("x"), []byte("x"), []byte("x"), []byte("x")},
		"the key of another":        {good.Authorities, other.AuthorityKey, good.Certificate, good.Key},
		"a certificate of another":  {good.Authorities, good.AuthorityKey, other.Certificate, other.Key},
		"no certificate":            {Authorities: good.Authorities, AuthorityKey: good.AuthorityKey},
		"no authority":              {Certificate: good.Certificate, Key: good.Key},
		"an authority that is none": {good.Certificate, good.Key, good.Certificate, good.Key},
	} {
		next, err := s.Next(now, "other.b.svc")
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		pair, err := tls.X509KeyPair(next.Certificate, next.Key)
		if err != nil || pair.Leaf.VerifyHostname("other.b.svc") != nil || !trusted(pair.Leaf, next.authorities(now), now) {
			t.Errorf("%s: not served, %v", what, err)
		}
		if again, err := next.Next(now, "other.b.svc"); err != nil || !again.Equal(next) {
			t.Errorf("%s: not at rest, %v", what, err)
		}
	}
}
