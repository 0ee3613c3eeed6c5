"""Faults of a TLS handshake in words, and what to do about each."""

import ssl

from ops.doctor.checks import error_line

NO_TLS_FAULT = "it does not speak TLS on that port"
NO_TLS_ADVICE = "begin the URL with redis:// or amqp://, or use the port that speaks TLS"
_FAULTS = {
    "Hostname mismatch": "its certificate is for another host name",
    "IP address mismatch": "its certificate is for another address",
    "unable to get local issuer": "its certificate is signed by an authority that is not trusted here",
    "self-signed certificate": "its certificate is signed by an authority that is not trusted here",
    "certificate has expired": "its certificate has expired",
    "certificate required": "it asks for a client certificate",
    "handshake failure": "it asks for a client certificate, or for another version of TLS",
    "EOF occurred in violation": "it ended the handshake; maybe it asks for a client certificate",
    "unknown ca": "it does not trust our client certificate",
    "wrong version number": NO_TLS_FAULT,
    "key values mismatch": "our client certificate and its key do not belong together",
}
_ADVICE = {
    "its certificate is signed": "name the authority's file with ssl_ca_certs=/path/ca.pem in the URL",
    "its certificate is for": "use the name that is in the certificate, or ssl_check_hostname=false in the URL",
    "it asks for": "name ssl_certfile and ssl_keyfile in the URL",
    "it ended the handshake": "name ssl_certfile and ssl_keyfile in the URL",
    NO_TLS_FAULT: NO_TLS_ADVICE,
}


def tls_fault(error: BaseException) -> str:
    """Empty when it was something else."""
    said = error_line(error).lower().replace("_", " ")
    return next((words for sign, words in _FAULTS.items() if sign.lower() in said), "")


def tls_advice(error: BaseException) -> str:
    fault = tls_fault(error)
    advice = next((advice for beginning, advice in _ADVICE.items() if fault.startswith(beginning)), "")
    return advice or ("correct the certificates" if fault or isinstance(error, ssl.SSLError) else "")
