// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// Lifetime is how long a certificate is valid.
const Lifetime = 2 * time.Hour

// Authority is a certificate authority. Issue is safe for concurrent use.
type Authority struct {
	PEM []byte // its certificate

	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	issued atomic.Int64
}

// NewAuthority returns a new authority.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{key: newKey(t)}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1 << 32), // not one of the certificates that it issues
		Subject:      pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-Lifetime / 2), NotAfter: time.Now().Add(Lifetime / 2),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.PEM = a.sign(t, a.cert, a.key)
	return a
}

// Pool returns a pool with the authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.PEM)
	return pool
}

// Issue returns a certificate for names and addresses that became valid an age ago, and
// its key. Serial numbers count from 1.
func (a *Authority) Issue(t testing.TB, age time.Duration, hosts ...string) (cert, key []byte) {
	t.Helper()
	from := time.Now().Add(-age)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.issued.Add(1)), Subject: pkix.Name{CommonName: "server"}, NotBefore: from, NotAfter: from.Add(Lifetime),
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	own := newKey(t)
	der := must.Get(x509.MarshalPKCS8PrivateKey(own))(t)
	return a.sign(t, template, own), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// Write writes a certificate that is valid now, and its key, to tls.crt and tls.key in a
// directory, by renaming.
func (a *Authority) Write(t testing.TB, dir string, hosts ...string) (certFile, keyFile string) {
	t.Helper()
	cert, key := a.Issue(t, Lifetime/2, hosts...)
	certFile, keyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	for path, text := range map[string][]byte{certFile: cert, keyFile: key} {
		must.Succeed(t, errors.Join(os.WriteFile(path+".new", text, 0o600), os.Rename(path+".new", path)))
	}
	return certFile, keyFile
}

func (a *Authority) sign(t testing.TB, template *x509.Certificate, of *ecdsa.PrivateKey) []byte {
	t.Helper()
	der := must.Get(x509.CreateCertificate(rand.Reader, template, a.cert, of.Public(), a.key))(t)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	return must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
}
