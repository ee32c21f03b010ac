/* kernels_vec_body: the loops for hue, saturation and lightness, written once for vectors with any
 * number of 16-byte lanes; each lane holds four pixels, which are 12 bytes in memory. The files
 * that include this one (kernels_avx2.c, kernels_avx512_body.h, kernels_neon.c) define these names:
 *
 *   vec, vecf, vmask       32-bit integers; floats; the result of a comparison
 *   LANES                  the number of 16-byte lanes in a vec
 *   v_load, v_store        12 bytes per lane from and to memory, and no byte more
 *   v_quad                 the same 16 bytes in each lane
 *   v_shuffle8             picks bytes of the same lane; -1 gives 0
 *   v_madd16               sums of the 16-bit products of two neighbors
 *   v_packus32, v_packus16 two vectors into one of half the width, lane by lane, clipped
 *   v_equal, v_odd, f_below comparisons; v_choose, f_choose between two by one
 *   v_set, v_add, v_sub, v_and, v_or, v_max, v_min, v_right, v_left; v_turn: looks
 *                          numbers up in a table of eight
 *   f_set, f_add, f_sub, f_mul, f_min, f_floor; f_of: float(x); v_of: truncated to an integer
 *   f_quotient             rounded correctly; f_near: within 2^-20; f_sixth: divided by 6,
 *                          rounded correctly
 *
 * HSV: Pillow computes with floats on the way there and with doubles on the way back. The code
 * below gives the same result, as test_kernels.c shows for all colors and turns:
 *
 *   s      255 range / most, truncated. This is exact: a quotient that is an integer comes out
 *          exactly, since K / 255 is rounded up to a float (its digits repeat every 8 bits), and
 *          the others are further from integers than any rounding error.
 *   h      the float steps of Pillow, one by one; its doubles may be floats here. One of max - r,
 *          max - g and max - b is 0 and one is the range, so that one quotient remains.
 *   back   integers: with `part` = 6h mod 255, each channel is v (65025 - s k) / 65025, rounded to
 *          the nearest. k is 0, 255, part or 255 - part, depending on the sixth of the circle. The
 *          quotient is never halfway between integers, since 65025 is odd, and it is far enough
 *          from halfway that Pillow's roundings never matter. */

enum { VEC_PIXELS = 4 * LANES, VEC_BYTES = 12 * LANES };

#define VEC_INLINE static inline __attribute__((always_inline))

/* One channel of four pixels as 32-bit numbers; two channels as pairs of 16-bit numbers. */
static const _Alignas(16) int8_t vec_picks[3][16] = {
	{0, -1, -1, -1, 3, -1, -1, -1, 6, -1, -1, -1, 9, -1, -1, -1},
	{1, -1, -1, -1, 4, -1, -1, -1, 7, -1, -1, -1, 10, -1, -1, -1},
	{2, -1, -1, -1, 5, -1, -1, -1, 8, -1, -1, -1, 11, -1, -1, -1},
};
static const _Alignas(16) int8_t vec_pairs[2][16] = {
	{0, -1, 1, -1, 3, -1, 4, -1, 6, -1, 7, -1, 9, -1, 10, -1},
	{1, -1, 2, -1, 4, -1, 5, -1, 7, -1, 8, -1, 10, -1, 11, -1},
};
/* The way back: the lowest byte of each number three times; planes of four bytes; pixels of four
 * bytes. */
static const _Alignas(16) int8_t vec_thrice[16] = {
	0, 0, 0, 4, 4, 4, 8, 8, 8, 12, 12, 12, -1, -1, -1, -1};
static const _Alignas(16) int8_t vec_weave[16] = {
	0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11, -1, -1, -1, -1};
static const _Alignas(16) int8_t vec_dense[16] = {
	0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1};
static const _Alignas(16) int8_t vec_places[16] = {
	0, 0, 0, 0, 4, 4, 4, 0, 8, 8, 8, 0, 12, 12, 12, 0};

VEC_INLINE vec vec_pick(vec pixels, int channel)
{
	return v_shuffle8(pixels, v_quad(vec_picks[channel]));
}

/* convert("L"); G's weight is split, since 38470 does not fit in 16 bits with a sign. */
VEC_INLINE vec vec_light_of(vec pixels)
{
	enum { RED = 19595, GREEN = 38470, BLUE = 7471 };
	vec red_green = v_shuffle8(pixels, v_quad(vec_pairs[0]));
	vec green_blue = v_shuffle8(pixels, v_quad(vec_pairs[1]));
	vec sum = v_add(v_madd16(red_green, v_set(RED | (GREEN / 2) << 16)),
		v_madd16(green_blue, v_set(GREEN / 2 | BLUE << 16)));
	return v_right(v_add(sum, v_set(0x8000)), 16);
}

struct vec_context {
	float amount;
	uint8_t turn;
};

VEC_INLINE vec vec_gray_one(vec pixels, const struct vec_context *context)
{
	(void)context;
	return v_shuffle8(vec_light_of(pixels), v_quad(vec_thrice));
}

/* Packing clips values below 0. */
VEC_INLINE vec vec_blend(vecf light, vec channel, vecf amount)
{
	vecf sum = f_add(light, f_mul(amount, f_sub(f_of(channel), light)));
	return v_of(f_min(sum, f_set(255.0f)));
}

VEC_INLINE vec vec_saturate_one(vec pixels, const struct vec_context *context)
{
	vecf light = f_of(vec_light_of(pixels)), amount = f_set(context->amount);
	vec red = vec_blend(light, vec_pick(pixels, 0), amount);
	vec green = vec_blend(light, vec_pick(pixels, 1), amount);
	vec blue = vec_blend(light, vec_pick(pixels, 2), amount);
	vec planes = v_packus16(v_packus32(red, green), v_packus32(blue, blue));
	return v_shuffle8(planes, v_quad(vec_weave));
}

/* For each sixth of the circle, which of the three tones R, G and B have: 0 is v, 1 the middle
 * one, 2 the lowest. The seventh entry repeats the first, for h = 255. */
static const _Alignas(32) int8_t vec_turns[8][4] = {{0, 1, 2, -1}, {1, 0, 2, -1}, {2, 0, 1, -1},
	{2, 1, 0, -1}, {1, 2, 0, -1}, {0, 2, 1, -1}, {0, 1, 2, -1}, {0, 1, 2, -1}};

struct vec_hsv {
	vec h, v;
	vecf s;
};

/* Pillow's h before it is scaled: from -1 to 5, in sixths of the circle. The quotient of channel
 * `first` is added, and that of the other is subtracted. */
VEC_INLINE vecf vec_sixths(vec rgb[3], vec most, vec least, vec range)
{
	vmask red = v_equal(rgb[0], most), green = v_equal(rgb[1], most);
	vec first = v_choose(red, rgb[2], v_choose(green, rgb[0], rgb[1]));
	vecf begin = f_choose(red, f_set(0.0f), f_choose(green, f_set(2.0f), f_set(4.0f)));
	vmask up = v_equal(first, least);
	vec middle = v_sub(v_add(v_add(rgb[0], rgb[1]), rgb[2]), v_add(most, least));
	vecf part = f_quotient(f_of(v_sub(most, middle)), f_of(v_max(range, v_set(1))));
	return f_choose(
		up, f_sub(f_add(begin, f_set(1.0f)), part), f_add(f_sub(begin, f_set(1.0f)), part));
}

VEC_INLINE struct vec_hsv vec_to_hsv(vec pixels)
{
	vec rgb[3] = {vec_pick(pixels, 0), vec_pick(pixels, 1), vec_pick(pixels, 2)};
	vec most = v_max(v_max(rgb[0], rgb[1]), rgb[2]);
	vec least = v_min(v_min(rgb[0], rgb[1]), rgb[2]);
	vec range = v_sub(most, least);
	vecf h = f_sixth(vec_sixths(rgb, most, least, range));
	h = f_choose(f_below(h, f_set(0.0f)), f_add(h, f_set(1.0f)), h);
	vecf above = f_add(f_mul(f_of(range), f_set(255.0f)), f_set(0.25f));
	return (struct vec_hsv){.h = v_of(f_mul(h, f_set(255.0f))),
		.v = most,
		.s = f_floor(f_near(above, f_of(v_max(most, v_set(1)))))};
}

/* The integer nearest to v (65025 - s k) / 65025. */
VEC_INLINE vec vec_toned(vecf v, vecf s, vecf k)
{
	vecf product = f_mul(v, f_sub(f_set(65025.0f), f_mul(s, k)));
	return v_of(f_add(f_mul(product, f_set(1.0f / 65025.0f)), f_set(0.5f)));
}

VEC_INLINE vec vec_from_hsv(struct vec_hsv hsv)
{
	vecf h = f_of(hsv.h), v = f_of(hsv.v);
	vecf sixth = f_floor(f_add(f_mul(h, f_set(6.0f / 255.0f)), f_set(1.0f / 512)));
	vecf part = f_sub(f_mul(h, f_set(6.0f)), f_mul(sixth, f_set(255.0f)));
	vec turn = v_of(sixth);
	vecf k = f_choose(v_odd(turn), part, f_sub(f_set(255.0f), part));
	vec low = vec_toned(v, hsv.s, f_set(255.0f)), between = vec_toned(v, hsv.s, k);
	vec tones = v_or(hsv.v, v_or(v_left(between, 8), v_left(low, 16)));
	vec ordered = v_shuffle8(tones, v_add(v_turn(vec_turns[0], turn), v_quad(vec_places)));
	return v_shuffle8(ordered, v_quad(vec_dense));
}

VEC_INLINE vec vec_hue_one(vec pixels, const struct vec_context *context)
{
	struct vec_hsv hsv = vec_to_hsv(pixels);
	hsv.h = v_and(v_add(hsv.h, v_set(context->turn)), v_set(255));
	return vec_from_hsv(hsv);
}

typedef vec vec_one(vec pixels, const struct vec_context *context);

VEC_INLINE void vec_each(uint8_t *to, const uint8_t *from, size_t pixels, vec_one *one,
	const struct vec_context *context)
{
	for (; pixels >= VEC_PIXELS; pixels -= VEC_PIXELS, to += VEC_BYTES, from += VEC_BYTES)
		v_store(to, one(v_load(from), context));
	if (!pixels)
		return;
	uint8_t last[VEC_BYTES] = {0};
	memcpy(last, from, 3 * pixels);
	v_store(last, one(v_load(last), context));
	memcpy(to, last, 3 * pixels);
}

static void vec_gray(uint8_t *to, const uint8_t *from, size_t pixels)
{
	vec_each(to, from, pixels, vec_gray_one, &(struct vec_context){0});
}

static void vec_saturate(uint8_t *to, const uint8_t *from, size_t pixels, float amount)
{
	vec_each(to, from, pixels, vec_saturate_one, &(struct vec_context){.amount = amount});
}

static void vec_hue(uint8_t *to, const uint8_t *from, size_t pixels, uint8_t turn)
{
	vec_each(to, from, pixels, vec_hue_one, &(struct vec_context){.turn = turn});
}

static uint64_t vec_light(const uint8_t *from, size_t pixels)
{
	vec sums = v_set(0);
	size_t whole = pixels - pixels % VEC_PIXELS;
	for (size_t i = 0; i < whole; i += VEC_PIXELS)
		sums = v_add(sums, vec_light_of(v_load(from + 3 * i)));
	uint32_t sum[VEC_PIXELS];
	memcpy(sum, &sums, sizeof(sum));
	uint64_t light = augment_kernels_c.light(from + 3 * whole, pixels - whole);
	for (int i = 0; i < VEC_PIXELS; i++)
		light += sum[i];
	return light;
}
