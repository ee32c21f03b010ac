# cmake -DSOURCE=daemon/http/page -DOUTPUT=page.c -P page.cmake: makes a C array of index.html with
# style.css and page.js inserted, and the Content-Security-Policy that lets a browser run these two
# and nothing else.
cmake_minimum_required(VERSION 3.25)

# The bytes that `hex` spells, in base64.
function(base64 hex ret)
	set(letters "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
	string(LENGTH "${hex}" digits)
	set(text "")
	foreach(at RANGE 0 ${digits} 6)
		if(at EQUAL digits)
			break()
		endif()
		string(SUBSTRING "${hex}" ${at} 6 part)
		string(LENGTH "${part}" length)
		string(SUBSTRING "${part}0000" 0 6 part)
		math(EXPR bytes "${length} / 2")
		foreach(shift 18 12 6 0)
			math(EXPR letter "(0x${part} >> ${shift}) & 63")
			string(SUBSTRING "${letters}" ${letter} 1 letter)
			math(EXPR place "(18 - ${shift}) / 6")
			if(place GREATER bytes)
				set(letter "=")
			endif()
			string(APPEND text "${letter}")
		endforeach()
	endforeach()
	set(${ret} "${text}" PARENT_SCOPE)
endfunction()

# A part that can be inserted into the page unchanged, and its hash in the form that a policy uses.
# `closing` in it would end it too early.
function(take file closing ret_text ret_hash)
	file(READ ${SOURCE}/${file} text)
	string(FIND "${text}" "${closing}" early)
	if(NOT early EQUAL -1)
		message(FATAL_ERROR "${SOURCE}/${file} must not contain ${closing}")
	endif()
	string(SHA256 hex "${text}")
	base64(${hex} hash)
	set(${ret_text} "${text}" PARENT_SCOPE)
	set(${ret_hash} "'sha256-${hash}'" PARENT_SCOPE)
endfunction()

take(style.css "</style" style style_hash)
take(page.js "</script" script script_hash)
file(READ ${SOURCE}/index.html html)
foreach(part style script)
	string(FIND "${html}" "@${part}@" found)
	if(found EQUAL -1)
		message(FATAL_ERROR "${SOURCE}/index.html has no @${part}@")
	endif()
	string(REPLACE "@${part}@" "${${part}}" html "${html}")
endforeach()
string(CONCAT policy "default-src 'none'; script-src ${script_hash}; style-src ${style_hash}; img-src 'self' blob: data:; "
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")

string(HEX "${html}" hex)
string(REPEAT "." 24 line)
string(REGEX REPLACE "(${line})" "\\1\n" bytes "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
file(WRITE ${OUTPUT} "/* Made by page.cmake from index.html, style.css and page.js. */
#include \"http/page.h\"

const char http_page_html[] = {
${bytes}'\\0'};
const size_t http_page_html_size = sizeof http_page_html - 1;
const char http_page_csp[] = \"${policy}\";
")
